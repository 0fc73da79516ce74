-- A lease that outlasts its own length was written before the clock went back. One that expired long ago was missed by every
-- reaper: nobody was there, or the clock went forward, or ours is not theirs. Whoever lives has its length to say so.
-- While the server was down ($3: since when it is up) nobody could renew: what was leased before lasts its length from then on.
UPDATE redrive.lease
SET expires_at = lease_for_ms
    + CASE WHEN expires_at > $1 + lease_for_ms OR expires_at < $1 - greatest(lease_for_ms, $2) THEN $1 ELSE $3 END
WHERE expires_at > $1 + lease_for_ms OR expires_at < $1 - greatest(lease_for_ms, $2)
   OR leased_at < $3 AND expires_at < $3 + lease_for_ms
