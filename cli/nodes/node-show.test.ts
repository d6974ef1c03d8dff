import { describe, expect, test } from '@jest/globals';
import { NodeHealth, NodeState } from '../../joinservice/curatorproto/gen/curator_pb.js';
import { RecordingHost } from '../host/fake-host.ts';
import { createCuratorHarness } from '../cluster/curator/fake-curator.ts';
import { reportedComponents } from './roles/fake-components.ts';
import { certificateLines } from './certificate-lines.ts';
import { runNodeShow } from './index.ts';

const MINUTE_MS = 60_000;

/** The result of `node show` for a node that has reported a status an hour ago. */
async function answer(over: object, { isWide = false } = {}) {
  const nowMs = Date.now();
  const node = {
    ...{ nodeId: 'node-2', name: 'n2', state: NodeState.UP, health: NodeHealth.HEALTHY },
    status: { controlPlane: reportedComponents() },
    statusUpdatedMs: BigInt(nowMs - 60 * MINUTE_MS),
    ...over,
  };
  await using harness = await createCuratorHarness({ getNode: async () => ({ node }) });
  const host = new RecordingHost({ isWide });
  await runNodeShow({ ...harness.owner, host }, 'n2');
  const [result] = host.records.filter((each) => each.kind === 'result');
  if (result === undefined) throw new Error('no result');
  return result;
}

const show = async (...given: Parameters<typeof answer>): Promise<string> => (await answer(...given)).text;

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

describe('node show of a node with thirty certificates', () => {
  const HOUR_MS = 60 * MINUTE_MS;
  const nowMs = 1_000 * HOUR_MS;
  /** Certificates that expire after this many hours. */
  const ending = (...hours: readonly number[]) =>
    hours.map((hour, index) => ({ name: `certificate-${index}`, notAfterMs: nowMs + hour * HOUR_MS }));
  const lines = (hours: readonly number[], isWide = false) =>
    certificateLines(ending(...hours), { nowMs, isWide });
  const thirty = Array.from({ length: 30 }, (_, index) => 1_000 - index);

  test('shows the three that expire first, and how many there are', () => {
    expect(lines(thirty)).toEqual([
      'certificate-29  expires in 40d',
      'certificate-28  expires in 40d',
      'certificate-27  expires in 40d',
      'and 27 more, which expire later: --output wide shows all',
    ]);
    expect(lines([900, 901, 902, 903]).at(-1)).toBe(
      'and 1 more, which expires later: --output wide shows all',
    );
    expect(lines([900, 901, 902])).toHaveLength(3);
    expect(lines([])).toEqual([]);
  });

  test('shows every certificate that has expired or expires within a day', () => {
    expect(lines([...thirty, -2, -1, 1, 23, 24]).map((line) => line.replace(/ +/g, ' '))).toEqual([
      'certificate-30 expired 2h ago',
      'certificate-31 expired 1h ago',
      'certificate-32 expires in 1h',
      'certificate-33 expires in 23h',
      'certificate-34 expires in 1d',
      'and 30 more, which expire later: --output wide shows all',
    ]);
  });

  test('shows all of them with --output wide, and in JSON', async () => {
    expect(lines(thirty, true)).toHaveLength(30);
    const notAfterMs = BigInt(Date.now() + 1_000 * HOUR_MS);
    const certificates = ending(...thirty).map(({ name }) => ({ name, notAfterMs }));
    const given = { status: { certificates } };
    expect(await show(given)).toContain('and 27 more');
    expect(await show(given, { isWide: true })).not.toContain('more, which');
    expect((await answer(given)).data).toMatchObject({ certificates: { length: 30 } });
  });
});
