// The configuration of the running gateway for operators: shown, changed, taken back, read again from its files.

import { z } from 'zod'
import { type AdminRoute, adminRoute, recordAct } from '../console/route.ts'

const revision = z
  .int()
  .nonnegative()
  .optional()
  .describe('Of the settings that the change was made for; others answer 409 `configuration_changed`.')

const changeBody = z.strictObject({
  revision,
  settings: z
    .record(z.string(), z.unknown())
    .describe(
      'As in weir.yaml: providers, models (a mapping by id, or a list), aliases, catalog, premium, limits, rate_limits, ' +
        'timeouts, stream. What is not named stays; null takes a setting back. In a list of keys `{"keep": 1}` is the ' +
        'first one of before.',
    ),
})

const testBody = changeBody.partial().extend({
  provider: z.string().min(1).optional().describe('Called with each of its keys.'),
  model: z
    .string()
    .min(1)
    .optional()
    .describe(
      'Beside a provider: the model of it to call, in the catalog or not; its cheapest chat model without one. ' +
        'Alone: a model, an alias, or a route, of which each member is called.',
    ),
})

export const configurationRoutes: readonly AdminRoute[] = [
  adminRoute(
    'GET config',
    {
      id: 'getConfig',
      summary: 'Get the settings that can be changed here: their values, and where each came from',
      description:
        'Providers, models and routes, aliases, the catalog and limits as they are in force. Secrets are masked. What a ' +
        'file, a variable or a flag says wins over what is changed here.',
    },
    ({ parts }) => parts.configuration.show(),
  ),
  adminRoute(
    'PATCH config',
    {
      id: 'changeConfig',
      summary: 'Change settings, at once and without a restart',
      description:
        'Checked like weir.yaml, all faults at once (`metadata.faults`): with any, nothing changes. Kept in the database, ' +
        'keys of providers encrypted with `secrets.master_key`. Calls in flight go on with what they began with. What ' +
        'is set in a file, a variable or a flag is changed there.',
      body: changeBody,
      errors: ['configuration_changed', 'unsupported_parameter', 'store_unavailable'],
      elevated: true,
    },
    ({ parts, body, operator }) => parts.configuration.change(body, operator.id),
  ),
  adminRoute(
    'POST config/preview',
    {
      id: 'previewConfig',
      summary: 'See what a change of settings would do, without it',
      body: changeBody,
      errors: ['configuration_changed'],
    },
    ({ parts, body }) => parts.configuration.preview(body),
  ),
  adminRoute(
    'POST config/test',
    {
      id: 'testConfig',
      summary: 'Call a provider or a model now, with one small real call for each key',
      description:
        'Answers with the text, the time, the tokens and the cost of each call, or with what is wrong in words. ' +
        'With `settings` a change is tested before it is made; nothing of it is kept. The provider bills whoever ' +
        'has its key: no account is charged, and health, routing and the request log know nothing of it. ' +
        'Each call has at most a minute (`timeouts.first_byte_ms` where that is less). At most 30 tests a minute.',
      body: testBody,
      errors: ['configuration_changed', 'model_not_found', 'rate_limit_exceeded'],
      elevated: true,
    },
    async (asked) => {
      const { parts, body } = asked
      const { provider, model, settings, revision: of } = body
      const proposed = settings === undefined ? undefined : { settings, revision: of }
      const tested = await parts.configuration.test({ provider, model, proposed })
      const calls = tested.calls.map(({ provider: id, upstream, key, problem, cost_usd }) => ({
        provider: id,
        upstream,
        key,
        problem,
        cost_usd,
      }))
      await recordAct(asked, 'config.test', provider ?? model ?? '', null, {
        proposed: proposed !== undefined,
        calls,
      })
      return tested
    },
  ),
  adminRoute(
    'POST config/undo',
    {
      id: 'undoConfig',
      summary: 'Take the latest change of settings back',
      description: 'Once more takes the one before back, and so on. Keys come back with their settings.',
      body: z.strictObject({ revision }),
      errors: ['configuration_changed', 'not_found', 'store_unavailable'],
      elevated: true,
    },
    ({ parts, body, operator }) => parts.configuration.undo(body.revision, operator.id),
  ),
  adminRoute(
    'POST config/reload',
    {
      id: 'reloadConfig',
      summary: 'Read the configuration again, without a restart',
      description:
        'Everything is checked first: with any fault the configuration in force stays, and the error names all of them. ' +
        'Providers, models, routes, limits, search and mail change at once; calls in flight go on with what they began ' +
        'with. What needs a restart is named and keeps its value. With `dry_run` nothing changes.',
      body: z.strictObject({ dry_run: z.boolean().optional() }),
    },
    async (asked) => {
      const { parts, body } = asked
      const { applied, changes } = await parts.configuration.reload(body.dry_run === true)
      if (applied) {
        const names = changes.map(({ setting }) => setting)
        await recordAct(asked, 'config.reload', parts.settings().file ?? '', null, { changed: names })
      }
      return { applied, changes }
    },
  ),
]
