// The answers of the admin API about the configuration, like ./answers.ts: what makes them takes its types from here.

import { z } from 'zod'
import { time, usd, type Wire } from '../docs/operation.ts'

/** The configuration that the gateway has read last. */
export const settings = z.strictObject({
  file: z.string().nullable(),
  settings: z.array(
    z.strictObject({ path: z.string(), value: z.unknown(), origin: z.string(), env: z.string() }),
  ),
})
export type ConfigurationView = Wire<typeof settings>

const configChange = z.strictObject({
  setting: z.string().describe('Its path, such as providers.openai.base_url; models and aliases by name.'),
  from: z.unknown(),
  to: z
    .unknown()
    .describe('The values, secrets masked; null where it is shown only as a whole, or is not set.'),
  restart: z.boolean().describe('It takes effect at the next start only.'),
})
export type ConfigChange = Wire<typeof configChange>

export const configReload = z.strictObject({
  applied: z.boolean().describe('False if nothing changed, or it was only asked what would.'),
  changes: z.array(configChange),
})
export type ConfigReload = Wire<typeof configReload>

export const changedSettings = z.strictObject({
  revision: z.int().describe('Of the settings afterwards.'),
  changes: z.array(configChange),
  warnings: z.array(z.strictObject({ setting: z.string(), problem: z.string() })),
})
export type ChangedSettingsView = Wire<typeof changedSettings>

export const settingsTest = z.strictObject({
  ok: z.boolean().describe('Whether every call was answered.'),
  left_out: z.int().describe('Keys or models beyond the most that one test calls.'),
  calls: z.array(
    z.strictObject({
      provider: z.string(),
      model: z.string().nullable(),
      upstream: z.string().nullable().describe('Its name at the provider; null where no call could be made.'),
      key: z.int().nullable().describe('Which of its keys, from 1.'),
      region: z.string().nullable().describe('Of the deployment.'),
      latency_ms: z.int().nullable(),
      text: z.string().nullable().describe('The answer.'),
      tokens: z.strictObject({ prompt: z.int(), completion: z.int() }).nullable(),
      cost_usd: usd.nullable().describe('What the provider bills; null where that is not known.'),
      problem: z.string().nullable().describe('Such as `key_refused`, `quota`, `unreachable`, `no_key`.'),
      error: z.string().nullable().describe('The same in words.'),
    }),
  ),
})
export type SettingsTestView = Wire<typeof settingsTest>

const source = {
  source: z
    .enum(['flag', 'environment', 'file', 'console', 'default'])
    .describe('`console` is what was changed here.'),
  origin: z.string().describe('The flag, the variable, or the line of the file.'),
}
const sourcedSetting = z.strictObject({ setting: z.string(), value: z.unknown(), ...source })

export const keptConfiguration = z.strictObject({
  revision: z.int().describe('Counts the changes.'),
  changed: z.strictObject({ at: time, operator: z.string() }).nullable(),
  can_undo: z.boolean(),
  takes_keys: z.boolean().describe('Whether keys can be kept: there is a master key.'),
  unreadable: z
    .array(z.string())
    .describe('Settings whose keys cannot be read any more: the master key has changed.'),
  file: z.string().nullable(),
  settings: z.array(sourcedSetting),
  providers: z.array(
    z.strictObject({
      id: z.string(),
      name: z.string(),
      known: z.boolean().describe('Whether the program knows its address and protocol.'),
      local: z.boolean(),
      protocol: z.string(),
      base_url: z.string(),
      state: z.enum(['in_service', 'disabled', 'no_key', 'no_address', 'not_found']),
      settings: z.array(sourcedSetting).describe('What is set of it.'),
    }),
  ),
  models: z.array(z.strictObject({ id: z.string(), entry: z.looseObject({}), ...source })),
  aliases: z.array(z.strictObject({ name: z.string(), to: z.string(), ...source })),
})
export type KeptConfigurationView = Wire<typeof keptConfiguration>
