CREATE TABLE `saved_prompt` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`name` text NOT NULL,
	`text` text NOT NULL,
	`changed_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `saved_prompt_account` ON `saved_prompt` (`account`);--> statement-breakpoint
ALTER TABLE `conversation` ADD `folder` text;--> statement-breakpoint
ALTER TABLE `conversation` ADD `pinned` integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE `conversation` ADD `settings` text;
