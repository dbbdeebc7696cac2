"""Tests against real Kafka clusters."""
