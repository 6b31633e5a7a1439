PRAGMA foreign_keys=OFF;--> statement-breakpoint
CREATE TABLE `__new_payment_reversal` (
	`processor` text NOT NULL,
	`id` text NOT NULL,
	`top_up` text NOT NULL,
	`kind` text NOT NULL,
	`amount` integer NOT NULL,
	`credit` integer NOT NULL,
	`held` integer NOT NULL,
	`booked` integer NOT NULL,
	`at` integer NOT NULL,
	PRIMARY KEY(`processor`, `id`),
	CONSTRAINT "payment_reversal_kind" CHECK(kind in ('refund', 'failed', 'open', 'won', 'lost')),
	CONSTRAINT "payment_reversal_amount" CHECK(amount >= 0 and credit >= 0 and held >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `__new_payment_reversal`("processor", "id", "top_up", "kind", "amount", "credit", "held", "booked", "at") SELECT "processor", "id", "top_up", "kind", "amount", "credit", "held", "booked", "at" FROM `payment_reversal`;--> statement-breakpoint
DROP TABLE `payment_reversal`;--> statement-breakpoint
ALTER TABLE `__new_payment_reversal` RENAME TO `payment_reversal`;--> statement-breakpoint
PRAGMA foreign_keys=ON;--> statement-breakpoint
CREATE INDEX `payment_reversal_top_up` ON `payment_reversal` (`top_up`);--> statement-breakpoint
CREATE INDEX `payment_reversal_unbooked` ON `payment_reversal` (`at`) WHERE booked = 0;--> statement-breakpoint
CREATE TABLE `__new_subscription` (
	`period` text PRIMARY KEY NOT NULL,
	`source` text NOT NULL,
	`subscription` text NOT NULL,
	`account` text NOT NULL,
	`product` text NOT NULL,
	`starts_at` integer NOT NULL,
	`ends_at` integer NOT NULL,
	`state` text NOT NULL,
	`amount` integer NOT NULL,
	`lot` text,
	`taken_back` integer,
	`created_at` integer NOT NULL,
	`updated_at` integer NOT NULL,
	CONSTRAINT "subscription_state" CHECK(state in ('active', 'grace', 'ended', 'refunded', 'refund_reversed'))
) STRICT;
--> statement-breakpoint
INSERT INTO `__new_subscription`("period", "source", "subscription", "account", "product", "starts_at", "ends_at", "state", "amount", "lot", "taken_back", "created_at", "updated_at") SELECT "period", "source", "subscription", "account", "product", "starts_at", "ends_at", "state", "amount", "lot", "taken_back", "created_at", "updated_at" FROM `subscription`;--> statement-breakpoint
DROP TABLE `subscription`;--> statement-breakpoint
ALTER TABLE `__new_subscription` RENAME TO `subscription`;--> statement-breakpoint
CREATE INDEX `subscription_account` ON `subscription` (`account`,`starts_at`);--> statement-breakpoint
CREATE INDEX `subscription_of` ON `subscription` (`source`,`subscription`,`starts_at`);
