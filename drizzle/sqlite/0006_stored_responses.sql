CREATE TABLE `response` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`call` text NOT NULL,
	`previous` text,
	`expires_at` integer NOT NULL,
	`kept_until` integer NOT NULL,
	`size` integer NOT NULL,
	`input` text NOT NULL,
	`answer` text NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `response_expiry` ON `response` (`kept_until`);--> statement-breakpoint
CREATE INDEX `response_account` ON `response` (`account`,`size`);
