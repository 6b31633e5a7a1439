CREATE TABLE `webhook` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`url` text NOT NULL,
	`events` text NOT NULL,
	`sealed` blob NOT NULL,
	`created_at` integer NOT NULL
) STRICT;
--> statement-breakpoint
CREATE INDEX `webhook_account` ON `webhook` (`account`);--> statement-breakpoint
CREATE TABLE `webhook_delivery` (
	`id` text PRIMARY KEY NOT NULL,
	`webhook` text NOT NULL,
	`type` text NOT NULL,
	`source` text NOT NULL,
	`at` integer NOT NULL,
	`body` text NOT NULL,
	`state` text NOT NULL,
	`next_at` integer,
	`attempts` text NOT NULL,
	CONSTRAINT "webhook_delivery_state" CHECK(state in ('waiting', 'delivered', 'given_up')),
	CONSTRAINT "webhook_delivery_next" CHECK((state = 'waiting') = (next_at is not null))
) STRICT;
--> statement-breakpoint
CREATE UNIQUE INDEX `webhook_delivery_source` ON `webhook_delivery` (`webhook`,`source`);--> statement-breakpoint
CREATE INDEX `webhook_delivery_of` ON `webhook_delivery` (`webhook`,`at`);--> statement-breakpoint
CREATE INDEX `webhook_delivery_due` ON `webhook_delivery` (`next_at`) WHERE state = 'waiting';--> statement-breakpoint
CREATE INDEX `webhook_delivery_over` ON `webhook_delivery` (`at`);
