import type { Turn } from './thread/thread.ts'

/** A conversation as a document of markdown. */
export function asMarkdown(title: string, turns: readonly Turn[]): string {
  const parts = turns.map(({ text, attachments, approvals, answer }) =>
    [
      `## You`,
      ...attachments.map(({ name }) => `*attached: ${name}*`),
      ...approvals.map(({ approve }) => (approve ? '*approved the call*' : '*denied the call*')),
      text,
      `## ${answer.model}`,
      ...(answer.reasoning === ''
        ? []
        : [`<details><summary>Reasoning</summary>\n\n${answer.reasoning}\n\n</details>`]),
      answer.text,
      ...(answer.sources.length === 0
        ? []
        : [answer.sources.map(({ url, title }, at) => `${at + 1}. [${title}](${url})`).join('\n')]),
      ...(answer.cost === null ? [] : [`*${answer.cost} USD*`]),
    ].join('\n\n'),
  )
  return `# ${title}\n\n${parts.join('\n\n')}\n`
}
