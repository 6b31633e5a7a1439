// `weir alarms list|test`

import type { Episode } from '../../notify/alarms.ts'
import { alarmSender, channelsOf, episodesIn } from '../../serve/gateway/alarms.ts'
import { mailerIn } from '../../serve/gateway/identity.ts'
import { publicUrlOf } from '../../serve/banner.ts'
import { CommandFailure, type Context, isoTime, print, table } from '../context.ts'
import { withStore } from '../with-store.ts'

/** What operators were told of and is not over. */
export async function listAlarms(context: Context): Promise<void> {
  const episodes = await withStore(context, ({ upkeep }) => episodesIn(upkeep))
  const open = episodes.filter(({ endedAt }) => endedAt === null)
  print(context, {
    json: open.map(({ id, alarm, subject, text, data, since, toldOf }) => ({
      id,
      alarm,
      subject,
      text,
      since: isoTime(since),
      told: toldOf,
      details: data,
    })),
    text:
      open.length === 0
        ? 'nothing is wrong that anybody was told of'
        : table(
            ['SINCE', 'ALARM', 'WHAT'],
            open.map(({ alarm, text, since }) => [isoTime(since) ?? '', alarm, text]),
          ),
  })
}

/** Tells everybody whom the configuration names, now. Fails where one of them was not reached. */
export async function testAlarms(context: Context): Promise<void> {
  const { config, io } = context
  const channels = channelsOf(config.alarms)
  if (channels.length === 0)
    throw new CommandFailure('nobody is told of alarms: set alarms.mail or alarms.webhook.url')
  const now = io.clock()
  const send = alarmSender({
    settings: () => config.alarms,
    mailer: () => mailerIn(config),
    gateway: () => publicUrlOf(config, config.server.port),
    now: io.clock,
  })
  const episode: Episode = {
    id: `alarm_test_${now}`,
    alarm: 'test',
    subject: 'test',
    text: 'This is a test of the alarms',
    data: {},
    until: null,
    since: now,
    endedAt: null,
    toldOf: [],
    toldOfEnd: [],
  }
  const results = await Promise.all(
    channels.map(async (channel) => {
      try {
        await send({ channel, episode, what: 'began' })
        return { channel, error: null }
      } catch (error) {
        return { channel, error: error instanceof Error ? error.message : String(error) }
      }
    }),
  )
  print(context, {
    json: results,
    text: results.map(({ channel, error }) => `${channel}: ${error ?? 'told'}`).join('\n'),
  })
  const failed = results.find(({ error }) => error !== null)
  if (failed) throw new CommandFailure(`${failed.channel} was not told: ${failed.error}`)
}
