"""Plans: from a cluster model and a request to replica lists that meet a goal, with proven bounds. No Spark."""
