import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { join } from 'node:path';
import { EtcdError } from '../../../internal/etcd/index.ts';
import { EXIT_CODES } from '../../../internal/errors/index.ts';
import { DiskFiles } from '../../../internal/file/index.ts';
import { Curator } from '../../../joinservice/curatorproto/gen/curator_pb.js';
import { OperatorApi } from '../../../joinservice/curatorproto/gen/operatorapi_pb.js';
import { NodeStreams } from '../../../joinservice/curatorproto/gen/streams_pb.js';
import { createCliHarness, type CliHarness } from '../../app/fake-cli.ts';
import { createCuratorHarness } from './fake-curator.ts';
import { createKubernetes } from './fake-kubernetes.ts';

/** Commands that cannot do anything for a cluster whose etcd has no quorum. */
const COMMANDS = [
  'node ls',
  'node ls --joins',
  'node ls --removed',
  'node show n1',
  'node label n1 a=b',
  'node approve x',
  'node refuse x',
  'node set-role n1 --worker --yes',
  'node drain n1',
  'node cordon n1',
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
  'operator remove ann --yes',
  'keys show',
  'keys rotate --yes',
  'config show',
  'config apply --yes',
  'sign --yes',
  'audit ls',
  'audit verify',
  'kubeconfig --renew',
  'node uncordon n1',
  'version',
  'status',
];

let cli: CliHarness;
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
  await cli.copy(harness.files, '/owner', 'owner');
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
