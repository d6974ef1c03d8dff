import { describe, expect, test } from '@jest/globals';
import type { ScheduleCertificate } from '../../../internal/backup/index.ts';
import { lossesOfReplacement } from './schedule-losses.ts';
import type { KeptBackup } from './schedule-view.ts';

const store = { endpoint: 'https://s3.example.org', region: 'us-east-1', bucket: 'backups', prefix: 'blue' };
const base: ScheduleCertificate = {
  ...{ version: 2, clusterId: 'c0ffee', epoch: 1, nodeIds: ['n1'], everyMinutes: 60, keep: 3 },
  ...{
    recipients: ['age1own', 'age1safe'],
    workspaceSha256: '0'.repeat(64),
    issuedMs: 1,
    endsMs: 86_400_000,
  },
  ...{ owner: '', vouchers: [], signature: '' },
};
const { workspaceSha256: _sealed, ...unsealed } = base;

const kept = (nodeId: string, provedMs: number | undefined): KeptBackup => ({
  ...{ name: 'x', seq: 1, nodeId, node: nodeId, takenMs: 1, provedMs, epoch: 1, sha256: '', sizeBytes: 1 },
  proofPlace: undefined,
});
/** n1 keeps three proved backups and one without a proof, n2 one proved backup. */
const BACKUPS = [kept('n1', 4), kept('n1', 3), kept('n1', 2), kept('n1', undefined), kept('n2', 1)];

const cases: readonly {
  readonly name: string;
  readonly before?: ScheduleCertificate;
  readonly after?: ScheduleCertificate;
  readonly losses: readonly string[];
}[] = [
  {
    name: 'the same schedule, signed later',
    after: { ...base, issuedMs: 2, endsMs: 86_400_001 },
    losses: [],
  },
  {
    name: 'more backups, more keys and a first target of copies',
    after: {
      ...base,
      everyMinutes: 1,
      keep: 9,
      copyTo: '/mnt/b',
      recipients: [...base.recipients, 'age1new'],
    },
    losses: [],
  },
  {
    name: 'a longer period',
    after: { ...base, everyMinutes: 360 },
    losses: ['a backup every 1h: now every 6h'],
  },
  {
    name: 'fewer backups',
    after: { ...base, keep: 1 },
    losses: [
      '3 proved backups on each control plane: now 1; 2 backups deleted now, and copies above this number',
    ],
  },
  {
    name: 'no directory for copies',
    before: { ...base, copyTo: '/mnt/b' },
    losses: ['new copies in /mnt/b: the copies there stay'],
  },
  {
    name: 'a directory instead of a store',
    before: { ...base, copyToStore: store },
    after: { ...base, copyTo: '/mnt/b' },
    losses: [
      'new copies in https://s3.example.org/backups/blue: the copies there stay',
      'the access key of the store in the cluster',
    ],
  },
  {
    name: 'a store without its CA certificates',
    before: { ...base, copyToStore: { ...store, ca: 'PEM' } },
    after: { ...base, copyToStore: store },
    losses: ['the CA certificates with which control planes verify the store (--s3-ca)'],
  },
  {
    name: 'fewer recovery keys',
    after: { ...base, recipients: ['age1own'] },
    losses: ['recovery key age1safe: it opens no new backup'],
  },
  {
    name: 'no sealed workspace',
    after: unsealed,
    losses: [
      'the workspace in new backups, because this workspace has no master secret: a restore needs the workspace of the first owner',
    ],
  },
  {
    name: 'an earlier end',
    after: { ...base, endsMs: 1 },
    losses: [
      'backups until 1970-01-02T00:00:00.000Z: the new signature is valid until 1970-01-01T00:00:00.001Z',
    ],
  },
];

describe('lossesOfReplacement()', () => {
  test.each(cases)('names what a schedule drops: $name', ({ before = base, after = base, losses }) => {
    expect(lossesOfReplacement(before, after, BACKUPS)).toEqual(losses);
  });
});
