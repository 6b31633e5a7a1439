-- Of an account, a key and a session it is told which: other processes read that one again, and keep all others. Payloads
-- of one transaction that are alike are one. What an older program is told, it takes for a change of anything.
CREATE FUNCTION tell_of_row() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('weir_accounts', TG_TABLE_NAME || ' ' || coalesce(old.id, new.id)); RETURN NULL; END $$;
--> statement-breakpoint
CREATE OR REPLACE TRIGGER account_changed AFTER INSERT OR UPDATE OR DELETE ON account
  FOR EACH ROW EXECUTE FUNCTION tell_of_row();
--> statement-breakpoint
CREATE OR REPLACE TRIGGER api_key_changed AFTER DELETE OR UPDATE OF account, name, mode, hash, expires_at, revoked_at, paused_at,
    paused_by, spend_limit, limit_window, allowed_models, lineage, requests_per_minute, tokens_per_minute, networks, cache_ttl,
    group_id, sees ON api_key
  FOR EACH ROW EXECUTE FUNCTION tell_of_row();
--> statement-breakpoint
CREATE OR REPLACE TRIGGER session_changed AFTER DELETE OR UPDATE OF account, hash, expires_at, revoked_at, idle_ms, elevated_until ON session
  FOR EACH ROW EXECUTE FUNCTION tell_of_row();
