import { amount, isWithin, reportSchema, targetOf, type BenchReport, type BenchResult } from './result.ts';

const BEGIN = '<!-- bench: written by `npm run bench -- --keep`, from docs/bench.json -->';
const END = '<!-- /bench -->';

/** Parses a report. Throws if it is invalid. */
export function parseReport(text: string): BenchReport {
  return reportSchema.parse(JSON.parse(text));
}

/** Replaces the tables between the two comments of the page with the tables of this report. */
export function withTables(page: string, report: BenchReport): string {
  const [begin, end] = [page.indexOf(BEGIN), page.indexOf(END)];
  if (begin < 0 || end < begin)
    throw new Error('writing the bench tables: the page has no comments that enclose them');
  return `${page.slice(0, begin)}${BEGIN}\n\n${tablesOf(report)}\n${page.slice(end)}`;
}

function tablesOf({ suites }: BenchReport): string {
  return Object.entries(suites)
    .map(([name, { measured, machine, load, results }]) =>
      [
        `**${name}** – ${measured.slice(0, 10)}, ${machine}; load per processor ${load[0].toFixed(1)} before, ${load[1].toFixed(1)} after`,
        '',
        '| what | figure | target | runs (lowest – highest) | made of |',
        '|---|---|---|---|---|',
        ...results.map((result) => `| ${cellsOf(result).join(' | ')} |`),
        '',
      ].join('\n'),
    )
    .join('\n');
}

function cellsOf(result: BenchResult): readonly string[] {
  const { name, value, spread, runs, detail } = result;
  const range =
    spread === undefined ? '' : `${runs ?? ''} (${amount(result, spread[0])} – ${amount(result, spread[1])})`;
  const figure = amount(result, value);
  const cells = [name, isWithin(result) ? figure : `**${figure}**, missed`, targetOf(result), range, detail];
  return cells.map((cell) => cell.replaceAll('|', '\\|'));
}
