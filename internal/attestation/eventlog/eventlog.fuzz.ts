import { readFixture } from '../../testing/evidence/index.ts';
import type { NamedFuzzTarget } from '../../testing/fuzz.ts';
import { parseEventLog } from './parse.ts';
import { replayEventLog } from './replay.ts';

const codes = ['eventlog-'];

export const targets: readonly NamedFuzzTarget[] = [
  {
    name: 'eventlog/tpm',
    codes,
    seeds: [
      readFixture('eventlog', 'arch-linux-workstation.bin'),
      readFixture('eventlog', 'cos-85-amd-sev.bin'),
    ],
    parse: (input) => replayEventLog(parseEventLog(input, 'tpm'), 'sha256'),
  },
  {
    name: 'eventlog/ccel',
    codes,
    seeds: [readFixture('eventlog', 'cos-113-tdx.ccel')],
    parse: (input) => replayEventLog(parseEventLog(input, 'ccel'), 'sha384'),
  },
];
