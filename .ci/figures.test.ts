import { describe, expect, test } from '@jest/globals';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { PORTS, VXLAN_PORT, WIREGUARD_PORTS } from '../internal/endpoint/index.ts';
import { REQUIRED_PORTS } from '../internal/preflight/node-requirements.ts';

const ROOT = join(import.meta.dirname, '..');
const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8');
const ascending = (numbers: readonly number[]): readonly number[] =>
  [...new Set(numbers)].toSorted((a, b) => a - b);

/** The ports of a text such as "2379, 2380, 9090–9094". */
function portsIn(text: string): readonly number[] {
  return [...text.matchAll(/(\d{4,5})(?:–(\d{4,5}))?/g)].flatMap(([, first, last]) =>
    Array.from({ length: Number(last ?? first) - Number(first) + 1 }, (_, index) => Number(first) + index),
  );
}

/** The cells of the table rows that follow a heading row, until the table ends. */
function rowsBelow(path: string, heading: string): readonly (readonly string[])[] {
  const [, after = ''] = read(path).split(`${heading}\n`);
  const [table = ''] = after.split('\n\n');
  const rows = table.split('\n').filter((line) => line.startsWith('| '));
  return rows.map((line) =>
    line
      .split('|')
      .map((cell) => cell.trim())
      .slice(1, -1),
  );
}

describe('the ports in the documents are those of the code', () => {
  const used = ascending(
    Object.values(PORTS).flatMap((port) => (typeof port === 'number' ? [port] : Object.values(port))),
  );
  const listeners = rowsBelow('ARCHITECTURE.md', '| port | where | listener | clients |');

  test('ARCHITECTURE.md lists every TCP port', () => {
    const tcp = listeners.filter(([ports = '']) => !ports.startsWith('UDP'));
    expect(ascending(tcp.flatMap(([ports = '']) => portsIn(ports)))).toEqual(used);
  });

  test.each([`UDP ${VXLAN_PORT}`, `UDP ${WIREGUARD_PORTS.ipv4}, ${WIREGUARD_PORTS.ipv6}`])(
    'ARCHITECTURE.md and docs/threat-model.md name the ports of the pod network: %s',
    (text) => {
      expect(listeners.filter(([ports]) => ports === text)).toHaveLength(1);
      const reached = rowsBelow('docs/threat-model.md', '| node | port | service |');
      expect(reached.filter(([, ports]) => ports === text)).toHaveLength(1);
    },
  );

  test('the tutorial and docs/kubernetes-settings.md name the UDP ports that a firewall between nodes must let pass', () => {
    expect(read('docs/tutorial/three-machines.md')).toContain(`UDP ${VXLAN_PORT}`);
    const { ipv4, ipv6 } = WIREGUARD_PORTS;
    for (const port of [VXLAN_PORT, ipv4, ipv6])
      expect(read('docs/kubernetes-settings.md')).toContain(`UDP ${port}`);
  });

  test('docs/doctor.md and the texts of the doctor name the UDP port of the pod network', () => {
    const named = read('docs/doctor.md').match(/UDP port (\d+)/g);
    expect(new Set(named)).toEqual(new Set([`UDP port ${VXLAN_PORT}`]));
  });

  test('docs/threat-model.md lists every port that is not only on the loopback', () => {
    const reached = listeners
      .filter(([, where]) => where !== 'loopback')
      .flatMap(([ports = '']) => portsIn(ports));
    const rows = rowsBelow('docs/threat-model.md', '| node | port | service |');
    expect(ascending(rows.flatMap(([, ports = '']) => portsIn(ports)))).toEqual(ascending(reached));
  });

  test('docs/machines.md lists the ports that must be free', () => {
    const row = read('docs/machines.md').match(/`preflight-port` \| TCP ports ([^|]+)\|/)?.[1] ?? '';
    expect(ascending(portsIn(row))).toEqual(ascending(Object.keys(REQUIRED_PORTS).map(Number)));
  });
});

const WORDS: Readonly<Record<string, number>> = {
  one: 1,
  two: 2,
  four: 4,
  five: 5,
  eight: 8,
  ten: 10,
  fifty: 50,
};
/** A figure in a text: "1,200", "65536", "ten". */
const inText = (text: string): number => WORDS[text] ?? Number(text.replaceAll(',', ''));
/** A figure in code: "65_536", "30 * 60_000". */
const inCode = (text: string): number =>
  text.split('*').reduce((product, factor) => product * Number(factor.trim().replaceAll('_', '')), 1);

const SECOND_MS = 1_000;
const MINUTE_MS = 60_000;
const KIB = 1_024;
const DAY_MINUTES = 24 * 60;

/** Limits: the sentence with its figures in order, where the code has each one, and the unit of the sentence. */
const limits: readonly {
  readonly document: string;
  readonly says: RegExp;
  readonly source: string;
  readonly are: readonly (readonly [name: string, unit: number])[];
}[] = [
  {
    document: 'docs/threat-model.md',
    says: /Each of its ports forwards (\S+) connections, (\S+) for each\s+IPv4 address or IPv6 \/64, each for at most (\S+) minutes and (\S+) minute of silence/,
    source: 'bootstrapper/units/relay-unit.ts',
    are: [
      ['connections:', 1],
      ['perSource:', 1],
      ['lifeMs:', MINUTE_MS],
      ['idleMs:', MINUTE_MS],
    ],
  },
  {
    document: 'docs/decisions/local-api-balancer.md',
    says: /It accepts (\S+) connections and closes one that is silent for (\S+) minutes/,
    source: 'bootstrapper/kubernetes/balancer/balancer.ts',
    are: [
      ['connections:', 1],
      ['idleMs:', MINUTE_MS],
    ],
  },
  {
    document: 'docs/decisions/local-api-balancer.md',
    says: /every (\S+) s where it has connections, every (\S+) s\s+elsewhere. After two requests of (\S+) s without an answer, or (\S+) seconds of "not ready"/,
    source: 'bootstrapper/apilb/health-checks.ts',
    are: [
      ['const USED_MS =', SECOND_MS],
      ['const UNUSED_MS =', SECOND_MS],
      ['const ANSWER_MS =', SECOND_MS],
      ['const UNREADY_MS =', SECOND_MS],
    ],
  },
  {
    document: 'docs/decisions/relays.md',
    says: /Curators name (\S+) of the workers/,
    source: 'joinservice/distribution/relay-choice.ts',
    are: [['const MAX_RELAYS =', 1]],
  },
  {
    document: 'docs/threat-model.md',
    says: /A connection has (\S+) calls at once/,
    source: 'joinservice/server/join-listener.ts',
    are: [['const MAX_CALLS =', 1]],
  },
  {
    document: 'docs/threat-model.md',
    says: /a status has at most (\S+) KiB/,
    source: 'joinservice/curator/nodes/check-status.ts',
    are: [['const MAX_STATUS_BYTES =', KIB]],
  },
  {
    document: 'docs/threat-model.md',
    says: /a node stores (\S+) MiB at once and then (\S+) KiB a second[^|]*each write counts (\S+) bytes/,
    source: 'joinservice/curator/nodes/check-status.ts',
    are: [
      ['const BURST_BYTES =', KIB * KIB],
      ['const BYTES_PER_SECOND =', KIB],
      ['const BYTES_PER_WRITE =', 1],
    ],
  },
  {
    document: 'docs/threat-model.md',
    says: /can write (\S+) decisions in (\S+) minutes at each control plane/,
    source: 'joinservice/join/requests/machine-write-budget.ts',
    are: [
      ['const MAX_WRITES =', 1],
      ['const PERIOD_MS =', MINUTE_MS],
    ],
  },
  {
    document: 'docs/threat-model.md',
    says: /a member that requests tickets writes once in (\S+) seconds/,
    source: 'joinservice/join/machine/clock-observations.ts',
    are: [['const WRITE_EACH_MS =', SECOND_MS]],
  },
  {
    document: 'docs/threat-model.md',
    says: /Serving certificates are valid for (\S+) days at most/,
    source: 'internal/config/node-settings.ts',
    are: [['const MAX_SERVING_MINUTES =', DAY_MINUTES]],
  },
  {
    document: 'docs/threat-model.md',
    says: /each checked for size and shape, once and for (\S+) seconds at most/,
    source: 'bootstrapper/cloudhints/read-cloud-hints.ts',
    are: [['const LIMIT_MS =', SECOND_MS]],
  },
  {
    document: 'docs/decisions/owner-documents.md',
    says: /At most (\S+) KiB/,
    source: 'internal/ownerdocument/owner-document.ts',
    are: [['const MAX_DOCUMENT_BYTES =', KIB]],
  },
  {
    document: 'docs/decisions/workspace-passphrase.md',
    says: /A new passphrase has at least (\S+) characters/,
    source: 'cli/workspace/passphrase.ts',
    are: [['const MIN_NEW_CHARS =', 1]],
  },
  {
    document: 'docs/decisions/workspace-passphrase.md',
    says: /base64, at most (\S+) KiB/,
    source: 'cli/workspace/sealed-text.ts',
    are: [['const MAX_CONTENT_BYTES =', KIB]],
  },
  {
    document: 'docs/audit.md',
    says: /share a budget for (\S+) minutes/,
    source: 'joinservice/join/join-service.ts',
    are: [['periodMs:', MINUTE_MS]],
  },
  {
    document: 'docs/audit.md',
    says: /tickets \| (\S+) \|[^]*can cause \| (\S+) \|/,
    source: 'internal/auditlog/audit-log.ts',
    are: [
      ['decisions:', 1],
      ['requests:', 1],
    ],
  },
  {
    document: 'docs/threat-model.md',
    says: /an older statement; one of more than (\S+) minutes ago/,
    source: 'joinservice/signer/verify-statement.ts',
    are: [['const STATEMENT_VALID_MS =', MINUTE_MS]],
  },
  {
    document: 'docs/atls.md',
    says: /\| TLS handshake \| (\S+) s \|\n\| both HELLOs, after TLS \| (\S+) s in all[^\n]*\n\| the whole[^\n]* \| (\S+) s \|/,
    source: 'internal/atls/upgrade.ts',
    are: [
      ['tlsMs:', SECOND_MS],
      ['helloMs:', SECOND_MS],
      ['wholeMs:', SECOND_MS],
    ],
  },
  {
    document: 'docs/atls.md',
    says: /proved themselves \| (\S+) in total, (\S+) per source/,
    source: 'internal/atls/pending-connection-limit.ts',
    are: [
      ['maxPending:', 1],
      ['maxPendingPerSource:', 1],
    ],
  },
];

/** The first figure that follows a name in the code. */
function figureOf(source: string, name: string): number {
  const [, ...rest] = read(source).split(name);
  const found = rest
    .map((text) => /^ ([0-9_]+(?: \* [0-9_]+)*)/.exec(text)?.[1])
    .find((text) => text !== undefined);
  if (found === undefined) throw new Error(`${source} has no figure after ${name}`);
  return inCode(found);
}

describe('the limits in the documents are those of the code', () => {
  test.each(limits.map((limit) => ({ ...limit, names: limit.are.map(([name]) => name).join(' ') })))(
    '$document: $names in $source',
    ({ document, says, source, are }) => {
      const figures = says.exec(read(document))?.slice(1).map(inText) ?? [];
      expect(figures).toEqual(are.map(([name, unit]) => figureOf(source, name) / unit));
    },
  );
});
