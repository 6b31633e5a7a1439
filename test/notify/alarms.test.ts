// Alarms: one message when something begins, one when it is over, none in between and none again after a restart.

import { describe, expect, test } from 'bun:test'
import {
  alarmBody,
  type AlarmFinding,
  alarmMail,
  type Episode,
  Episodes,
  RefusalRate,
  shareReached,
  suddenSpend,
} from '../../src/notify/alarms.ts'
import { noon } from '../credits/support.ts'

const minute = 60_000
const day = 86_400_000

function down(subject: string, more: Partial<AlarmFinding> = {}): AlarmFinding {
  const text = `${subject} does not answer`
  return { alarm: 'provider_down', subject, text, data: {}, holdMs: 2 * minute, until: null, ...more }
}

/** Looks once a minute; everybody is told at once. Gives what was told, by minute. */
function watchFor(channels: readonly string[] = ['mail:ops@example.org']) {
  let now = noon
  let episodes = new Episodes([], now)
  const told: string[] = []
  const none: ReadonlySet<never> = new Set()
  return {
    told,
    get episodes() {
      return episodes
    },
    look(
      minutes: number,
      findings: readonly AlarmFinding[],
      unknown: ConstructorParameters<typeof Set>[0] = none,
    ) {
      for (let at = 0; at < minutes; at++) {
        episodes.onLook({ findings, unknown: new Set(unknown as Iterable<AlarmFinding['alarm']>) }, now)
        for (const owed of episodes.messagesFor(channels)) {
          told.push(`${(now - noon) / minute} ${owed.what} ${owed.episode.subject}`)
          episodes.onTold(owed, channels)
        }
        now += minute
      }
    },
    restart(minutes: number) {
      now += minutes * minute
      episodes = new Episodes(JSON.parse(JSON.stringify(episodes.all)), now)
    },
  }
}

describe('an episode', () => {
  test('is told once when it has lasted, and once when it has been over for five minutes', () => {
    const watch = watchFor()
    watch.look(30, [down('openai')])
    watch.look(30, [])
    expect(watch.told).toEqual(['2 began openai', '34 ended openai'])
    expect(watch.episodes.all).toEqual([])
  })

  test('that comes and goes is one; what does not last is none', () => {
    const watch = watchFor()
    for (let time = 0; time < 10; time++) {
      watch.look(3, [down('openai')])
      watch.look(3, [])
    }
    expect(watch.told).toEqual(['2 began openai'])
    const brief = watchFor()
    brief.look(2, [down('openai')])
    brief.look(10, [])
    brief.look(2, [down('openai')])
    brief.look(10, [])
    expect(brief.told).toEqual([])
  })

  test('is not announced again by a process that was started anew, and is over when it is', () => {
    const watch = watchFor()
    watch.look(5, [down('openai')])
    watch.restart(60)
    watch.look(5, [down('openai')])
    watch.restart(1)
    watch.look(10, [])
    expect(watch.told).toEqual(['2 began openai', '76 ended openai'])
  })

  test('of something that cannot be looked at is not over', () => {
    const watch = watchFor()
    watch.look(5, [down('openai')])
    watch.look(30, [], ['provider_down'])
    expect(watch.told).toEqual(['2 began openai'])
    watch.look(10, [])
    expect(watch.told).toHaveLength(2)
  })

  test('of a budget is there until its window ends, and nobody is told of that', () => {
    const watch = watchFor()
    const budget = down('account', { alarm: 'budget_reached', holdMs: 0, until: noon + 60 * minute })
    watch.look(1, [budget])
    watch.look(59, [])
    expect([watch.told, watch.episodes.all.length]).toEqual([['0 began account'], 1])
    watch.look(1, [])
    expect([watch.told, watch.episodes.all.length]).toEqual([['0 began account'], 0])
    // The next window is another one.
    watch.look(1, [{ ...budget, subject: 'account of December', until: noon + 90 * day }])
    expect(watch.told).toHaveLength(2)
  })

  test('is told to each, and to whoever could not be told when they can; not for ever', () => {
    const episodes = new Episodes([], noon)
    episodes.onLook({ findings: [down('a', { holdMs: 0 })], unknown: new Set() }, noon)
    const both = ['mail:a@example.org', 'webhook']
    const [first, second] = episodes.messagesFor(both)
    expect([first!.channel, second!.channel]).toEqual(both)
    episodes.onTold(first!, both)
    expect(episodes.messagesFor(both).map(({ channel, what }) => [channel, what])).toEqual([
      ['webhook', 'began'],
    ])
    episodes.onLook({ findings: [], unknown: new Set() }, noon + 10 * minute)
    // The other is told of the end when it knows of the beginning.
    expect(episodes.messagesFor(both).map(({ channel, what }) => [channel, what])).toEqual([
      ['mail:a@example.org', 'ended'],
      ['webhook', 'began'],
    ])
    episodes.onLook({ findings: [], unknown: new Set() }, noon + 2 * day)
    expect(episodes.all).toEqual([])
  })
})

describe('a message', () => {
  const episode: Episode = {
    id: 'alarm_1',
    alarm: 'provider_down',
    subject: 'lab',
    text: 'Lab does not answer',
    data: { reason: 'busy' },
    until: null,
    since: noon,
    endedAt: noon + minute,
    toldOf: [],
    toldOfEnd: [],
  }

  test('says what, since when, and when it was over', () => {
    const since = new Date(noon).toISOString()
    expect(JSON.parse(alarmBody({ episode, what: 'began' }))).toEqual({
      type: 'alarm.began',
      timestamp: since,
      data: {
        id: 'alarm_1',
        alarm: 'provider_down',
        subject: 'lab',
        text: 'Lab does not answer',
        since,
        ended_at: null,
        details: { reason: 'busy' },
      },
    })
    const { subject, text } = alarmMail({ episode, what: 'ended' }, 'https://weir.example')
    expect(subject).toBe('Weir, over: Lab does not answer')
    expect(text).toContain(`was over at ${new Date(noon + minute).toISOString()}`)
    expect(text).toContain('reason: busy')
    expect(text).toContain('Gateway: https://weir.example')
  })

  test('has no line breaks in its subject', () => {
    const hostile = { ...episode, text: 'Group a\r\nBcc: all@example.org' }
    expect(alarmMail({ episode: hostile, what: 'began' }, '').subject).not.toMatch(/[\r\n]/)
  })
})

describe('spending', () => {
  const limits = { factor: 3, least: 10 }
  test.each<[string, number, readonly number[], boolean]>([
    ['as usual', 20, [20, 22, 18, 20], false],
    ['three times as much', 60, [20, 20, 20, 20], false],
    ['more than that', 61, [20, 20, 20, 20], true],
    ['much more of next to nothing', 9, [0.1, 0.1, 0.1, 0.1], false],
    ['after weeks without any', 11, [0, 0, 0, 0], true],
    ['without a past', 1_000, [], false],
    ['with a past of a week', 1_000, [1], false],
  ])('%s', (_, spent, before, isSudden) => {
    expect(suddenSpend({ stretch: 'hour', spent, before }, limits) !== undefined).toBe(isSudden)
  })

  test('is never sudden with a factor of 0', () => {
    expect(
      suddenSpend({ stretch: 'day', spent: 99, before: [1, 1] }, { factor: 0, least: 0 }),
    ).toBeUndefined()
  })

  test('reaches the highest share of a budget', () => {
    const shares = [0.95, 0.8, 1]
    expect([79, 80, 94.9, 95, 130].map((spent) => shareReached(spent, 100, shares))).toEqual([
      undefined,
      0.8,
      0.8,
      0.95,
      1,
    ])
  })
})

describe('refusals', () => {
  const limits = { factor: 5, least: 100 }

  /** Adds so many in each five minutes, and gives when a rise was found. */
  function risesIn(
    perStretch: readonly number[],
    from?: { counts: readonly number[]; at: number },
  ): number[] {
    const start = from?.at ?? noon
    const rate = new RefusalRate(from?.counts ?? [], start, start)
    return perStretch.flatMap((times, stretch) => {
      const now = start + stretch * 5 * minute
      rate.add(times, now)
      return rate.finding(limits, 'insufficient_credits') === undefined ? [] : [stretch]
    })
  }

  test('rise where there are five times as many as in the last day', () => {
    const usual = Array.from({ length: 288 }, () => 10)
    expect(risesIn([...usual, 40, 60, 120, 10, 10, 10, 10])).toEqual([290, 291])
    expect(risesIn([...usual, ...usual])).toEqual([])
  })

  test('are no rise while there are few, or no past of an hour', () => {
    expect(risesIn([...Array.from({ length: 100 }, () => 0), 40, 40, 19])).toEqual([])
    expect(risesIn([0, 0, 500, 500])).toEqual([])
  })

  test('are remembered over a restart, and the time without a gateway is one without refusals', () => {
    const before = new RefusalRate([], noon, noon)
    for (let stretch = 0; stretch < 50; stretch++) before.add(100, noon + stretch * 5 * minute)
    const at = noon + 49 * 5 * minute
    expect(risesIn([100, 100, 100], { counts: before.counts, at })).toEqual([])
    const later = new RefusalRate(before.counts, at, at + 10 * day)
    expect(later.counts.every((count) => count === 0)).toBe(true)
  })
})
