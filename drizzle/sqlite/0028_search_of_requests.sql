CREATE TABLE `request_tag` (
	`tag` text NOT NULL,
	`value` text NOT NULL,
	`at` integer NOT NULL,
	`seq` integer NOT NULL,
	`account` text NOT NULL,
	PRIMARY KEY(`tag`, `value`, `at`, `seq`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `api_key_last_four` ON `api_key` (`last_four`);--> statement-breakpoint
CREATE INDEX `management_key_last_four` ON `management_key` (`last_four`);--> statement-breakpoint
CREATE INDEX `request_log_model` ON `request_log` (`model`,`at`);--> statement-breakpoint
CREATE INDEX `request_log_provider` ON `request_log` (`provider`,`at`) WHERE provider is not null;--> statement-breakpoint
CREATE INDEX `request_log_fault` ON `request_log` (`code`,`at`) WHERE code is not null;--> statement-breakpoint
CREATE INDEX `request_log_outcome` ON `request_log` ((provider is null and status < 500),`at`) WHERE code is not null;
--> statement-breakpoint
CREATE TRIGGER `request_log_tags` AFTER INSERT ON `request_log` WHEN new.tags IS NOT NULL BEGIN
  INSERT INTO request_tag SELECT json_each.key, json_each.value, new.at, new.seq, new.account FROM json_each(new.tags);
END;
--> statement-breakpoint
CREATE TRIGGER `request_log_no_tags` AFTER DELETE ON `request_log` WHEN old.tags IS NOT NULL BEGIN
  DELETE FROM request_tag WHERE (tag, value, at, seq) IN (SELECT json_each.key, json_each.value, old.at, old.seq FROM json_each(old.tags));
END;
--> statement-breakpoint
INSERT INTO request_tag SELECT json_each.key, json_each.value, at, seq, account FROM request_log, json_each(request_log.tags) WHERE tags IS NOT NULL;
