// For test keys: how to make a provider fail on purpose, to test one's own program.

import { useState } from 'react'
import { t } from '../../strings/text.ts'
import { Copy } from '../../ui/basics.tsx'

const ways = [
  ['sim/error-429', '429', 'It limits the rate, each time.'],
  ['sim/error-500', '500', 'It fails, each time.'],
  ['sim/cut', 'cut', 'It breaks off in the middle of its answer.'],
  ['sim/hang', 'hang', 'It never answers.'],
  ['sim/slow', 'slow', 'It takes its time before and between tokens.'],
] as const

export function Misbehave() {
  const [model, setModel] = useState<string>(ways[0][0])
  const about = ways.find(([id]) => id === model)![2]
  return (
    <section
      className="mt-6 rounded-md border border-warn bg-warn-soft px-4 py-3"
      aria-label={t('Test mode')}
    >
      <h2 className="font-semibold">{t('Test mode: make it misbehave')}</h2>
      <p className="mt-1">
        {t(
          'Calls with a test key are free and answered by the simulator. Call one of its models to see a failure.',
        )}
      </p>
      <div className="mt-3 flex flex-wrap gap-2">
        {ways.map(([id, name]) => (
          <button
            key={id}
            type="button"
            aria-pressed={id === model}
            onClick={() => setModel(id)}
            className={`h-7 rounded-md border border-warn px-2.5 text-[13px] font-medium ${id === model ? 'bg-warn text-paper' : ''}`}
          >
            {name}
          </button>
        ))}
      </div>
      <p className="mt-3 flex flex-wrap items-center gap-2">
        <code className="rounded bg-panel px-2 py-1 font-mono text-[13px]">"model": "{model}"</code>
        <Copy text={model} /> <span>{t(about)}</span>
      </p>
    </section>
  )
}
