"""What a cluster does if brokers fail, return, come or go: the answers of `what-if`, without Spark."""
