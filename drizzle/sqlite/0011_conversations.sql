CREATE TABLE `conversation` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`title` text NOT NULL,
	`model` text,
	`last_response` text,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `conversation_account` ON `conversation` (`account`,`updated_at`);
