import { Link } from 'wouter'
import type { RequestRow } from '../../api/wire.ts'
import { count, milliseconds, usdShort } from '../../strings/format.ts'
import { t } from '../../strings/text.ts'
import { Badge, Time } from '../../ui/basics.tsx'
import { numeric, Table } from '../../ui/table.tsx'

export function RequestTable({ rows }: { rows: readonly RequestRow[] }) {
  return (
    <Table
      label={t('Requests')}
      columns={[
        t('When'),
        t('Model'),
        t('Key'),
        t('Outcome'),
        numeric(t('Tokens in')),
        numeric(t('Tokens out')),
        numeric(t('Time')),
        numeric(t('Cost')),
      ]}
    >
      {rows.map((row) => (
        <tr key={row.id} className="hover:bg-paper">
          <td>
            <Link href={`/requests/${row.id}`} className="text-accent underline">
              <Time at={row.ended_at} />
            </Link>
          </td>
          <td className="max-w-72 truncate font-mono text-[12.5px]" title={row.model ?? undefined}>
            {row.model ?? '–'}
          </td>
          <td className="max-w-40 truncate">{row.key === null ? t('chat') : (row.key_name ?? row.key)}</td>
          <td className="whitespace-nowrap">
            <Outcome row={row} />
          </td>
          <td className="num">{count(row.prompt_tokens)}</td>
          <td className="num">{count(row.completion_tokens)}</td>
          <td className="num">{milliseconds(row.total_ms)}</td>
          <td className="num">{usdShort(row.cost)}</td>
        </tr>
      ))}
    </Table>
  )
}

export function Outcome({ row }: { row: RequestRow }) {
  if (row.code === null) {
    const plain = row.ending === null || row.ending === 'finished' || row.ending === 'completed'
    return <Badge tone={plain ? 'good' : 'warn'}>{plain ? t('served') : row.ending}</Badge>
  }
  return (
    <Badge tone={row.status >= 500 ? 'bad' : 'warn'}>
      {row.status} {row.code}
    </Badge>
  )
}
