"""Plans: from a cluster as it is to replica lists that meet a goal, with a proof of how little it takes. No Spark."""
