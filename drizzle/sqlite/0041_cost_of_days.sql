ALTER TABLE `usage_month` ADD `cost_1` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_2` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_3` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_4` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_5` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_6` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_7` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_8` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_9` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_10` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_11` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_12` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_13` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_14` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_15` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_16` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_17` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_18` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_19` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_20` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_21` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_22` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_23` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_24` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_25` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_26` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_27` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_28` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_29` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_30` integer;--> statement-breakpoint
ALTER TABLE `usage_month` ADD `cost_31` integer;
--> statement-breakpoint
UPDATE usage_month SET
  cost_1 = made.cost_1,
  cost_2 = made.cost_2,
  cost_3 = made.cost_3,
  cost_4 = made.cost_4,
  cost_5 = made.cost_5,
  cost_6 = made.cost_6,
  cost_7 = made.cost_7,
  cost_8 = made.cost_8,
  cost_9 = made.cost_9,
  cost_10 = made.cost_10,
  cost_11 = made.cost_11,
  cost_12 = made.cost_12,
  cost_13 = made.cost_13,
  cost_14 = made.cost_14,
  cost_15 = made.cost_15,
  cost_16 = made.cost_16,
  cost_17 = made.cost_17,
  cost_18 = made.cost_18,
  cost_19 = made.cost_19,
  cost_20 = made.cost_20,
  cost_21 = made.cost_21,
  cost_22 = made.cost_22,
  cost_23 = made.cost_23,
  cost_24 = made.cost_24,
  cost_25 = made.cost_25,
  cost_26 = made.cost_26,
  cost_27 = made.cost_27,
  cost_28 = made.cost_28,
  cost_29 = made.cost_29,
  cost_30 = made.cost_30,
  cost_31 = made.cost_31
FROM (SELECT month, account, `key`,
    sum(CASE date WHEN 1 THEN cost END) AS cost_1,
    sum(CASE date WHEN 2 THEN cost END) AS cost_2,
    sum(CASE date WHEN 3 THEN cost END) AS cost_3,
    sum(CASE date WHEN 4 THEN cost END) AS cost_4,
    sum(CASE date WHEN 5 THEN cost END) AS cost_5,
    sum(CASE date WHEN 6 THEN cost END) AS cost_6,
    sum(CASE date WHEN 7 THEN cost END) AS cost_7,
    sum(CASE date WHEN 8 THEN cost END) AS cost_8,
    sum(CASE date WHEN 9 THEN cost END) AS cost_9,
    sum(CASE date WHEN 10 THEN cost END) AS cost_10,
    sum(CASE date WHEN 11 THEN cost END) AS cost_11,
    sum(CASE date WHEN 12 THEN cost END) AS cost_12,
    sum(CASE date WHEN 13 THEN cost END) AS cost_13,
    sum(CASE date WHEN 14 THEN cost END) AS cost_14,
    sum(CASE date WHEN 15 THEN cost END) AS cost_15,
    sum(CASE date WHEN 16 THEN cost END) AS cost_16,
    sum(CASE date WHEN 17 THEN cost END) AS cost_17,
    sum(CASE date WHEN 18 THEN cost END) AS cost_18,
    sum(CASE date WHEN 19 THEN cost END) AS cost_19,
    sum(CASE date WHEN 20 THEN cost END) AS cost_20,
    sum(CASE date WHEN 21 THEN cost END) AS cost_21,
    sum(CASE date WHEN 22 THEN cost END) AS cost_22,
    sum(CASE date WHEN 23 THEN cost END) AS cost_23,
    sum(CASE date WHEN 24 THEN cost END) AS cost_24,
    sum(CASE date WHEN 25 THEN cost END) AS cost_25,
    sum(CASE date WHEN 26 THEN cost END) AS cost_26,
    sum(CASE date WHEN 27 THEN cost END) AS cost_27,
    sum(CASE date WHEN 28 THEN cost END) AS cost_28,
    sum(CASE date WHEN 29 THEN cost END) AS cost_29,
    sum(CASE date WHEN 30 THEN cost END) AS cost_30,
    sum(CASE date WHEN 31 THEN cost END) AS cost_31
  FROM (SELECT account, `key`, cost, unixepoch(day / 1000, 'unixepoch', 'start of month') * 1000 AS month, (day - unixepoch(day / 1000, 'unixepoch', 'start of month') * 1000) / 86400000 + 1 AS date FROM usage_day) AS days
  GROUP BY 1, 2, 3) AS made
WHERE usage_month.month = made.month AND usage_month.account = made.account AND usage_month.`key` = made.`key`;
