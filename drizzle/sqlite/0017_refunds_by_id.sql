CREATE TABLE `payment_refund` (
	`top_up` text NOT NULL,
	`id` text NOT NULL,
	`amount` integer NOT NULL,
	`asked_at` integer NOT NULL,
	`made_at` integer,
	PRIMARY KEY(`top_up`, `id`),
	CONSTRAINT "payment_refund_amount" CHECK(amount > 0)
) STRICT, WITHOUT ROWID;
