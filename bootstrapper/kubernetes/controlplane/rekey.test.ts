import { describe, expect, test } from '@jest/globals';
import { createHash, X509Certificate } from 'node:crypto';
import type { FilePort } from '../../../internal/file/index.ts';
import { createPairs, type KeySet } from '../../../internal/keyset/index.ts';
import { settle, settleUntil } from '../../../internal/testing/index.ts';
import {
  caKey,
  caPem,
  createControlPlane,
  etcd,
  never,
  placeAuthority,
  placeKubelet,
  placeSharedKeys,
  runAll,
  settings,
  silent,
} from '../fake-machine.ts';
import { COMPONENT_CLIENTS } from '../credentials/key-files.ts';
import { PATHS } from '../settings.ts';
import { readSharedKeyState, placeKubernetesKeys, STATIC_PODS } from '../credentials/shared-keys.ts';

function staticScope(container: string): string {
  const place = `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${'7f'.repeat(16)}.slice`;
  return `4:memory:${place}/cri-containerd-${container}.scope\n0::${place}/cri-containerd-${container}.scope\n`;
}

describe('ControlPlane and a key rotation', () => {
  const pairs = Promise.all([createPairs(1, Date.now()), createPairs(2, Date.now())]);
  const setAt = async (phase: KeySet['phase']): Promise<KeySet> => {
    const [previous, next] = await pairs;
    return { generation: 2, phase, previous, next };
  };
  /** Simulates static pods that run with the keys on disk, or that do not run. */
  async function runPods(files: FilePort): Promise<void> {
    const { podDigests: digests } = await readSharedKeyState(files, etcd);
    for (const [index, pod] of STATIC_PODS.entries()) {
      await files.makeDirectory(`/proc/${index + 10}`);
      await files.writeAtomic(`/proc/${index + 10}/comm`, pod.slice(0, 15));
      await files.writeAtomic(`/proc/${index + 10}/environ`, `CLUSTER_KEYS=${digests?.[pod]}\0`);
      await files.writeAtomic(`/proc/${index + 10}/cgroup`, staticScope(`${index}`));
    }
  }

  test('after an upgrade, the agent repeats no step because the checkpoints still match', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await placeKubelet(bed.files);
    const { certificates: _certificates, taints: _taints, ...others } = settings;
    const completed = (inputs: unknown): string =>
      createHash('sha256').update(JSON.stringify(inputs)).digest('hex');
    const { version, nodeName, nodeAddress, serviceSubnet, host } = settings;
    const whole = completed([others, etcd]);
    const checkpoints = {
      ...{ pki: whole, 'control-plane': whole, settings: whole },
      kubelet: completed([version, nodeName, nodeAddress, serviceSubnet, host]),
    };
    await bed.files.writeAtomic(PATHS.stepCheckpoints, JSON.stringify(checkpoints));
    await bed.files.makeDirectory(PATHS.manifests);
    await bed.files.writeAtomic(`${PATHS.manifests}/kube-apiserver.yaml`, 'x');
    await placeKubernetesKeys(
      bed.files,
      await setAt('distribute').then((set) => ({
        ...set,
        previous: { ...set.previous, 'kubernetes-clients-ca': { public: caPem, private: caKey } },
      })),
    );
    await runAll(bed.create());
    expect(bed.phasesRun()).toEqual([]);
    expect(bed.units.moves.filter((move) => move.includes('restart'))).toEqual([]);
  });

  test('rekey() restarts the kubelet once, rewrites static pods with changed keys, and waits until they run', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await runAll(bed.create());
    await bed.files.makeDirectory(PATHS.manifests);
    await bed.files.writeAtomic(`${PATHS.manifests}/kube-apiserver.yaml`, 'x');
    const restarts = (): number => bed.units.moves.filter((move) => move.startsWith('restart')).length;
    const before = restarts();
    const phasesOf = async (phase: KeySet['phase'], areRunning = true): Promise<readonly string[]> => {
      const before = bed.phasesRun().length;
      await placeKubernetesKeys(bed.files, await setAt(phase));
      if (areRunning) await runPods(bed.files);
      await bed.create().rekey(silent, never);
      return bed.phasesRun().slice(before);
    };
    expect(await phasesOf('trust')).toEqual(['control-plane all']);
    expect(restarts() - before).toBe(1);
    expect(await phasesOf('trust')).toEqual([]);
    expect(await phasesOf('issue')).toEqual(['control-plane all']);
    expect(await phasesOf('refresh')).toEqual([]);
    const said: unknown[] = [];
    await placeKubernetesKeys(bed.files, await setAt('retire'));
    const waiting = bed
      .create()
      .rekey({ ...silent, report: (_text, more) => said.push(more?.lastError) }, never);
    await settle();
    expect(String(said.at(-1))).toContain('kube-apiserver');
    await runPods(bed.files);
    await bed.clock.advance(1_000);
    await waiting;
    expect(await phasesOf('done')).toEqual([]);
    expect(restarts() - before).toBe(1);
  });

  test('the agent terminates a stopping API server that still waits for watches, once it accepts no connections', async () => {
    const bed = createControlPlane();
    await placeAuthority(bed.files);
    await runAll(bed.create());
    await placeKubernetesKeys(bed.files, await setAt('trust'));
    await bed.files.makeDirectory('/proc/77');
    await bed.files.writeAtomic('/proc/77/comm', 'kube-apiserver\n');
    await bed.files.writeAtomic('/proc/77/environ', 'PATH=/\0');
    await bed.files.writeAtomic('/proc/77/cgroup', staticScope('0a3e'));
    const kills = () => bed.commands.runs.filter((argv) => argv.includes('kill'));
    const wait = async (seconds: number): Promise<void> => {
      for (let polls = 0; polls < 4 * seconds; polls++) {
        await bed.clock.advance(250);
        await settle();
      }
    };
    const said: string[] = [];
    const rekeyed = bed.create().rekey({ ...silent, report: (text) => said.push(text) }, never);
    await settleUntil(() => said.includes('waiting for the API server'));
    await wait(5);
    // The API server still listens, so the agent sends no signal.
    expect(kills()).toEqual([]);
    const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    bed.probes.push(...Array.from({ length: 100 }, () => refused));
    await wait(2);
    expect(kills()).toEqual([]);
    await wait(8);
    expect(kills()).toEqual([['systemctl', 'kill', '--signal=TERM', 'cri-containerd-0a3e.scope']]);
    await bed.files.remove('/proc/77');
    await runPods(bed.files);
    bed.probes.length = 0;
    await wait(1);
    await rekeyed;
  });

  test('start() reissues certificates when newer keys have arrived', async () => {
    const bed = createControlPlane();
    await placeKubelet(bed.files);
    await placeSharedKeys(bed.files);
    const controlPlane = bed.create({}, false);
    await controlPlane.createPki(silent, never);
    await placeKubernetesKeys(bed.files, await setAt('done'));
    await runPods(bed.files);
    await controlPlane.start(silent, never);
    const scheduler = Buffer.from(
      (await bed.files.read(COMPONENT_CLIENTS.scheduler.cert, 65_536)) ?? [],
    ).toString('utf8');
    expect(new X509Certificate(scheduler).issuer).toBe('CN=kubernetes clients 2');
  });

  test('a control plane that joins after a rotation gets certificates of the CAs that sign', async () => {
    const bed = createControlPlane();
    await placeKubelet(bed.files);
    await placeSharedKeys(bed.files);
    await placeKubernetesKeys(bed.files, await setAt('done'));
    await runPods(bed.files);
    await runAll(bed.create({}, false));
    const read = async (path: string): Promise<string> =>
      Buffer.from((await bed.files.read(path, 65_536)) ?? []).toString('utf8');
    const toKubelets = new X509Certificate(await read(`${PATHS.pki}/apiserver-kubelet-client.crt`));
    expect([toKubelets.issuer, toKubelets.subject]).toEqual([
      'CN=kubernetes clients 2',
      'CN=kube-apiserver-kubelet-client\nO=kubeadm:cluster-admins',
    ]);
    const toExtensions = new X509Certificate(await read(`${PATHS.pki}/front-proxy-client.crt`));
    expect([toExtensions.issuer, toExtensions.subject]).toEqual([
      'CN=front-proxy-ca 2',
      'CN=front-proxy-client',
    ]);
  });
});
