import { JoinError } from './errors.ts';

const UNITS_MS: Readonly<Record<string, number>> = { s: 1_000, m: 60_000, h: 3_600_000 };

/** "90s", "10m", "2h" → ms. @throws JoinError `cluster-join-duration-invalid` */
export function parseDuration(text: string): number {
  const [, number = '', unit = ''] = /^([1-9][0-9]{0,5})([smh])$/.exec(text) ?? [];
  const unitMs = UNITS_MS[unit];
  if (unitMs === undefined)
    throw new JoinError('cluster-join-duration-invalid', `reading the duration ${JSON.stringify(text)}`);
  return Number(number) * unitMs;
}
