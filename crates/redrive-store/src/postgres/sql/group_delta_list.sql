-- What is not added up yet. By the numbers of transactions: in this order a job's story goes on.
SELECT g.fingerprint, g.letters, g.failures, g.under_way, g.recovered, g.relapsed, g.seen_at, g.at
FROM redrive.group_delta g ORDER BY age(g.xmin) DESC
