CREATE TABLE `open_call` (
	`id` text PRIMARY KEY NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`hold` integer NOT NULL,
	`pins` text NOT NULL,
	`funding` text NOT NULL,
	`model` text NOT NULL,
	`price_version` text NOT NULL,
	`key_limit` integer,
	`key_window` integer,
	`owner` text NOT NULL,
	`lease_until` integer NOT NULL,
	`opened_at` integer NOT NULL,
	`progress` text,
	CONSTRAINT "open_call_hold" CHECK(hold >= 0)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO `open_call` SELECT `id`, `account`, `key`, `hold`, `pins`, `funding`, `model`, `price_version`, `key_limit`, `key_window`, `owner`, `lease_until`, `opened_at`, `progress` FROM `call` WHERE `state` = 'open';
--> statement-breakpoint
CREATE TABLE `__new_call` (
	`seq` integer PRIMARY KEY NOT NULL,
	`id` text NOT NULL,
	`account` text NOT NULL,
	`key` text,
	`state` text NOT NULL,
	`hold` integer NOT NULL,
	`funding` text NOT NULL,
	`model` text NOT NULL,
	`price_version` text NOT NULL,
	`owner` text NOT NULL,
	`opened_at` integer NOT NULL,
	`ended_at` integer NOT NULL,
	`ending` text NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	`absorbed` integer NOT NULL,
	`estimated` integer NOT NULL,
	`upstream_id` text,
	`receipt` text,
	`settle_tx` integer,
	CONSTRAINT "call_state" CHECK(state in ('settled', 'voided')),
	CONSTRAINT "call_cost" CHECK(cost = charged + absorbed and charged >= 0 and absorbed >= 0),
	CONSTRAINT "call_void" CHECK(state <> 'voided' or (cost = 0 and settle_tx is null)),
	CONSTRAINT "call_hold" CHECK(hold >= 0)
) STRICT;
--> statement-breakpoint
INSERT INTO `__new_call`("seq", "id", "account", "key", "state", "hold", "funding", "model", "price_version", "owner", "opened_at", "ended_at", "ending", "cost", "charged", "absorbed", "estimated", "upstream_id", "receipt", "settle_tx") SELECT "seq", "id", "account", "key", "state", "hold", "funding", "model", "price_version", "owner", "opened_at", "ended_at", "ending", "cost", "charged", "absorbed", "estimated", "upstream_id", "receipt", "settle_tx" FROM `call` WHERE `state` <> 'open';--> statement-breakpoint
DROP TABLE `call`;--> statement-breakpoint
ALTER TABLE `__new_call` RENAME TO `call`;--> statement-breakpoint
CREATE UNIQUE INDEX `call_id` ON `call` (`id`);--> statement-breakpoint
CREATE UNIQUE INDEX `call_settle_tx` ON `call` (`settle_tx`) WHERE settle_tx is not null;--> statement-breakpoint
CREATE INDEX `call_upstream` ON `call` (`upstream_id`) WHERE upstream_id is not null;
