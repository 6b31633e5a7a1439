CREATE TABLE `usage_tag` (
	`account` text NOT NULL,
	`tag` text NOT NULL,
	`day` integer NOT NULL,
	`value` text NOT NULL,
	`key` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	PRIMARY KEY(`account`, `tag`, `day`, `value`, `key`, `model`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
CREATE INDEX `usage_tag_tag` ON `usage_tag` (`tag`,`day`,`value`);--> statement-breakpoint
ALTER TABLE `call` ADD `tags` text;--> statement-breakpoint
ALTER TABLE `open_call` ADD `tags` text;--> statement-breakpoint
ALTER TABLE `request_log` ADD `tags` text;
