CREATE TABLE `usage_tag_total` (
	`tag` text NOT NULL,
	`day` integer NOT NULL,
	`value` text NOT NULL,
	`channel` text NOT NULL,
	`model` text NOT NULL,
	`calls` integer NOT NULL,
	`errors` integer NOT NULL,
	`input_tokens` integer NOT NULL,
	`output_tokens` integer NOT NULL,
	`cost` integer NOT NULL,
	`charged` integer NOT NULL,
	PRIMARY KEY(`tag`, `day`, `value`, `channel`, `model`)
) STRICT, WITHOUT ROWID;
--> statement-breakpoint
INSERT INTO usage_tag_total SELECT tag, day, value, CASE `key` WHEN '' THEN 'app' ELSE 'api' END, model, sum(calls), sum(errors),
  sum(input_tokens), sum(output_tokens), sum(cost), sum(charged) FROM usage_tag GROUP BY 1, 2, 3, 4, 5;
