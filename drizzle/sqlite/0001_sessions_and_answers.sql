CREATE TABLE `session` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`hash` text NOT NULL,
	`last_four` text NOT NULL,
	`created_at` integer NOT NULL,
	`expires_at` integer NOT NULL,
	`revoked_at` integer,
	FOREIGN KEY (`account`) REFERENCES `account`(`id`) ON UPDATE no action ON DELETE no action
) STRICT;
--> statement-breakpoint
CREATE INDEX `session_account` ON `session` (`account`);--> statement-breakpoint
ALTER TABLE `idempotency` ADD `owner` text DEFAULT '' NOT NULL;--> statement-breakpoint
ALTER TABLE `idempotency` ADD `headers` text;
