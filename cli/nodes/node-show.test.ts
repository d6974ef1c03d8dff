import { expect, test } from '@jest/globals';
import { NodeHealth, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { reportedComponents } from './roles/fake-components.ts';
import { runNodeShow } from './index.ts';

const MINUTE_MS = 60_000;

/** The text of `node show` for a node that has reported a status an hour ago. */
async function show(over: object): Promise<string> {
  const nowMs = Date.now();
  const node = {
    ...{ nodeId: 'node-2', name: 'n2', state: NodeState.UP, health: NodeHealth.HEALTHY },
    status: { controlPlane: reportedComponents() },
    statusUpdatedMs: BigInt(nowMs - 60 * MINUTE_MS),
    ...over,
  };
  await using harness = await createCuratorHarness({ getNode: async () => ({ node }) });
  await runNodeShow(harness.owner, 'n2');
  const [text = ''] = harness.owner.host.records.flatMap((each) =>
    each.kind === 'result' ? [each.text] : [],
  );
  return text;
}

test('node show of a silent node says since when it is silent, and that the rest is old', async () => {
  const silent = { health: NodeHealth.TIMEOUT, silentSinceMs: BigInt(Date.now() - 13 * MINUTE_MS) };
  const text = await show(silent);
  expect(text).toMatch(/state +up, silent: no heartbeat of its agent for at least 13m/);
  expect(text).toMatch(/Kubernetes control plane, as last reported 1h ago\n +kube-apiserver +was ready\n/);
  expect(text).toContain('Components, as last reported 1h ago');
  expect(text).not.toContain('ready for');
  // A curator of an older version does not tell since when.
  expect(await show({ health: NodeHealth.TIMEOUT })).toMatch(/no heartbeat of its agent$/m);
});

test('node show names what the agent finds wrong on its machine', async () => {
  expect(await show({})).not.toContain('Problems of the machine');
  const services = [{ name: 'kubelet', why: 'does not start: unknown flag: --x' }];
  const problems = [{ code: 'preflight-swap', subject: 'swap', cause: 'swap is enabled: /swapfile' }];
  const text = await show({ status: { machine: { services, problems } } });
  expect(text).toContain(
    '\nProblems of the machine\n  kubelet does not start: unknown flag: --x\n  swap is enabled: /swapfile\n',
  );
});

test('node show of a node that responds shows for how long its components are ready', async () => {
  const text = await show({});
  expect(text).toMatch(/state +up, healthy\n/);
  expect(text).toMatch(/Kubernetes control plane\n +kube-apiserver +ready for /);
});
