-- What every process keeps in memory of these tables is dropped when one of them has changed. New keys and sessions are
-- left out, since nobody knows of them before; and so is what the use of one writes.
CREATE FUNCTION tell_of_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN PERFORM pg_notify('weir_accounts', TG_TABLE_NAME); RETURN NULL; END $$;
--> statement-breakpoint
CREATE TRIGGER account_changed AFTER INSERT OR UPDATE OR DELETE ON account
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
--> statement-breakpoint
CREATE TRIGGER api_key_changed AFTER DELETE OR UPDATE OF account, name, mode, hash, expires_at, revoked_at, paused_at,
    paused_by, spend_limit, limit_window, allowed_models, lineage, requests_per_minute, tokens_per_minute, networks, cache_ttl,
    group_id, sees ON api_key
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
--> statement-breakpoint
CREATE TRIGGER session_changed AFTER DELETE OR UPDATE OF account, hash, expires_at, revoked_at, idle_ms, elevated_until ON session
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
--> statement-breakpoint
CREATE TRIGGER account_group_changed AFTER INSERT OR UPDATE OR DELETE ON account_group
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
--> statement-breakpoint
CREATE TRIGGER group_member_changed AFTER INSERT OR UPDATE OR DELETE ON group_member
  FOR EACH STATEMENT EXECUTE FUNCTION tell_of_change();
