DROP INDEX "request_log_outcome";--> statement-breakpoint
CREATE INDEX "request_log_outcome" ON "request_log" USING btree ((case when provider is null and status < 500 then 1 else 0 end),"at") WHERE code is not null;
--> statement-breakpoint
CREATE FUNCTION request_log_tags() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'INSERT' THEN
    INSERT INTO request_tag (tag, value, at, seq, account)
      SELECT each.key, each.value, new.at, new.seq, new.account FROM json_each_text(new.tags::json) AS each;
  ELSE
    DELETE FROM request_tag USING json_each_text(old.tags::json) AS each
      WHERE tag = each.key AND request_tag.value = each.value AND at = old.at AND seq = old.seq;
  END IF;
  RETURN NULL;
END $$;
--> statement-breakpoint
CREATE TRIGGER "request_log_tags" AFTER INSERT ON "request_log" FOR EACH ROW WHEN (new.tags IS NOT NULL) EXECUTE FUNCTION request_log_tags();
--> statement-breakpoint
CREATE TRIGGER "request_log_no_tags" AFTER DELETE ON "request_log" FOR EACH ROW WHEN (old.tags IS NOT NULL) EXECUTE FUNCTION request_log_tags();
