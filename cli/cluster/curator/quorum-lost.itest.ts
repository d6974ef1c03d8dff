import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { encodeBundle } from '../../../internal/attestation/collateral/index.ts';
import { EtcdError } from '../../../internal/etcd/index.ts';
import { EXIT_CODES } from '../../../internal/errors/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import { TestAmd } from '../../../internal/testing/evidence/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { createCliHarness, type CliHarness } from '../../app/fake-cli.ts';
import { runConfigEdit } from '../../configuration/index.ts';
import { RecordingHost } from '../../host/fake-host.ts';
import { createCuratorHarness } from './fake-curator.ts';
import { createKubernetes } from './fake-kubernetes.ts';

/**
 * Commands that cannot do anything for a cluster whose etcd has no quorum. `dashboard` is tested in cli/dashboard/dashboard.itest.ts.
 */
const COMMANDS = [
  'node ls',
  'node ls --joins',
  'node ls --removed',
  'node show n1',
  'node label n1 a=b',
  'node taint n1 a:NoSchedule',
  'node approve x',
  'node refuse x',
  'node set-role n1 --worker --yes',
  'node drain n1',
  'node cordon n1',
  'node reboot n1 --yes',
  'node shutdown n1 --yes',
  'node remove n1 --yes',
  'node reset n1 --yes',
  'node readmit n1',
  'node logs n1',
  'node logs n1 --path root',
  'node metrics n1',
  'node cloud-init',
  'verify n1',
  'explain n1',
  'operator ls',
  'operator add ann --role viewer --request ann/ann.csr',
  'operator remove ann --yes',
  'keys show',
  'keys rotate --yes',
  'config show',
  'config apply --yes',
  'sign --yes',
  'audit ls',
  'audit verify',
  'audit export log',
  'backup create --to new.backup',
  'backup create --into owner',
  'backup schedule set',
  'backup schedule show',
  'backup schedule stop --yes',
  'attest collateral upload',
  'attest collateral show',
  'doctor',
  'kubeconfig --renew',
  'node uncordon n1',
  'version',
  'status',
];

let cli: CliHarness;
let owner: Awaited<ReturnType<typeof createCuratorHarness>>['owner'];
const open: AsyncDisposable[] = [];
beforeAll(async () => {
  cli = await createCliHarness();
  const lost = async (): Promise<never> => {
    throw new EtcdError('etcd-unavailable', 'reading the record of the cluster');
  };
  const lostStream = async function* (): AsyncGenerator<never> {
    yield await lost();
  };
  const failing = (
    methods: (typeof Curator)['methods'] | readonly { localName: string; methodKind: string }[],
  ) =>
    Object.fromEntries(
      methods.map(({ localName, methodKind }) => [localName, methodKind === 'unary' ? lost : lostStream]),
    );
  const harness = await createCuratorHarness(
    failing(Curator.methods),
    failing(OperatorApi.methods),
    failing(NodeStreams.methods),
  );
  open.push(harness);
  owner = harness.owner;
  const items = [{ kind: 'certificate' as const, der: new TestAmd('Milan').ark.der }];
  await harness.files.makeDirectory('/owner/collateral');
  await harness.files.writeAtomic(
    '/owner/collateral/bundle.json',
    encodeBundle({ assembledMs: Date.now(), items }),
  );
  await cli.copy(harness.files, '/owner', 'owner');
  await cli.run(['-w', 'ann', 'operator', 'key', 'ann']);
  const options = { address: '127.0.0.1', port: 0, answer: () => new Error('closed') };
  const object = { metadata: { annotations: {} }, spec: {} };
  open.push(await createKubernetes(new DiskFiles(), join(cli.root, 'owner/kubeconfig'), object, options));
});
afterAll(async () => {
  for (const each of [...open, cli]) await each[Symbol.asyncDispose]();
});

test.each(COMMANDS)('`cluster %s` says that the quorum is lost', async (line) => {
  const { code, out, err } = await cli.run(['-w', 'owner', ...line.split(' ')]);
  expect(out + err).toMatch(/quorum lost|quorum +LOST/);
  expect(out + err).toMatch(/`cluster (help recover|recover quorum)`/);
  expect([
    EXIT_CODES.unreachable.number,
    EXIT_CODES.unhealthy.number,
    EXIT_CODES.precondition.number,
  ]).toContain(code);
});

test('`cluster support bundle` is written, and says that the quorum is lost', async () => {
  const { code, out } = await cli.run(['-w', 'owner', 'support', 'bundle', '--to', 'x.support']);
  expect(code).toBe(0);
  expect(out).toMatch(
    /^nodes +quorum lost \(see `cluster help recover`\).*`cluster support bundle --local`/m,
  );
});

test('`cluster config edit` says that the quorum is lost, and starts no editor', async () => {
  const context = { ...owner, host: new RecordingHost({ answer: () => true }) };
  const runAttached = () => Promise.reject(new Error('the editor was started'));
  await expect(runConfigEdit(context, { runAttached })).rejects.toMatchObject({
    code: 'cluster-quorum-lost',
    message: expect.stringMatching(/^quorum lost: /),
  });
});
