import { randomBytes } from 'node:crypto';
import type { Clock } from '../../internal/clock/index.ts';
import type { CommandRunner } from '../../internal/exec/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import type { UnitPort } from '../../internal/platform/index.ts';
import type { PhaseProgress } from '../phases/index.ts';
import type { ApiProbe } from './api-probe.ts';
import { KubernetesError } from './errors.ts';
import type { Kubeadm } from './kubeadm.ts';
import { buildKubeadmConfig } from './kubeadm-config.ts';
import type { Marks } from './marks.ts';
import { API_PORT, PATHS, type EtcdClientFiles, type KubernetesSettings } from './settings.ts';
import { APILB_UNIT, buildKubeletUnit, KUBELET_UNIT } from './units.ts';

const API_READY_MS = 240_000;
const REGISTERED_MS = 120_000;
const POLL_MS = 250;
const PEM_BYTES = 256 * 1024;
const POD_LOGS = '/var/log/pods';

export interface ControlPlanePorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly clock: Clock;
  readonly kubeadm: Kubeadm;
  readonly marks: Marks;
  readonly probe: ApiProbe;
}

/** The Kubernetes control plane of this node, step by step. Each step may be repeated. */
export class ControlPlane {
  readonly #ports: ControlPlanePorts;
  readonly #settings: KubernetesSettings;
  readonly #etcd: EtcdClientFiles;

  constructor(ports: ControlPlanePorts, settings: KubernetesSettings, etcd: EtcdClientFiles) {
    this.#ports = ports;
    this.#settings = settings;
    this.#etcd = etcd;
  }

  /** Certificates, kubeconfigs and the key that encrypts secrets at rest. Needs nothing that runs. */
  async makePki(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, kubeadm, marks } = this.#ports;
    await files.makeDirectory('/var/lib/cluster/kubernetes');
    await files.writeAtomic(PATHS.kubeadmConfig, buildKubeadmConfig(this.#settings, this.#etcd));
    if (await marks.isSet('pki', this.#inputs())) return progress.already();
    await this.#makeEncryptionKey();
    progress.say('making certificates');
    await kubeadm.initPhase(['certs', 'all'], signal);
    progress.say('making kubeconfig files');
    await kubeadm.initPhase(['kubeconfig', 'all'], signal);
    await marks.set('pki', this.#inputs());
  }

  /** Static pods, kubelet, and the wait until the API server of this node is ready. */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { kubeadm, marks, units } = this.#ports;
    await units.install(KUBELET_UNIT, buildKubeletUnit(), signal);
    if (await marks.isSet('control-plane', this.#inputs())) {
      await units.start(KUBELET_UNIT, signal);
      progress.already();
    } else {
      progress.say('writing the static pods');
      await kubeadm.initPhase(['control-plane', 'all'], signal);
      progress.say('starting the kubelet');
      await kubeadm.initPhase(['kubelet-start'], signal);
    }
    await this.#waitForApi(progress, signal);
    await marks.set('control-plane', this.#inputs());
  }

  /** What the cluster keeps about itself: kubeadm's and the kubelet's configuration, DNS and proxy, labels and taints. */
  async storeSettings(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, kubeadm, marks } = this.#ports;
    if (await marks.isSet('settings', this.#inputs())) return progress.already();
    progress.say('storing the configuration');
    await kubeadm.initPhase(['upload-config', 'all'], signal);
    progress.say('installing cluster DNS and the service proxy');
    await Promise.all([
      kubeadm.initPhase(['addon', 'coredns'], signal),
      kubeadm.initPhase(['addon', 'kube-proxy'], signal),
    ]);
    await this.#waitForNode(progress, signal);
    progress.say('labelling the node');
    await kubeadm.initPhase(['mark-control-plane'], signal);
    // It passes every authorizer; nobody needs it once cluster-admins are bound.
    await files.remove(PATHS.superAdminConf);
    await marks.set('settings', this.#inputs());
  }

  /** Until the kubelet has put its node into the API. */
  async waitRegistered(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.#waitForNode(progress, signal);
  }

  #inputs(): unknown {
    return [this.#settings, this.#etcd];
  }

  async #makeEncryptionKey(): Promise<void> {
    const { files } = this.#ports;
    await files.makeDirectory(PATHS.encryption.slice(0, PATHS.encryption.lastIndexOf('/')));
    const config = {
      apiVersion: 'apiserver.config.k8s.io/v1',
      kind: 'EncryptionConfiguration',
      resources: [
        {
          resources: ['secrets'],
          providers: [
            { secretbox: { keys: [{ name: 'key1', secret: randomBytes(32).toString('base64') }] } },
            { identity: {} },
          ],
        },
      ],
    };
    // Never replaced: what was written with the first key could not be read again.
    await files.createExclusive(PATHS.encryption, `${JSON.stringify(config)}\n`);
  }

  async #waitForApi(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, probe } = this.#ports;
    const ca = await files.read(`${PATHS.pki}/ca.crt`, PEM_BYTES);
    const target = {
      host: this.#settings.nodeAddress,
      port: API_PORT,
      caPem: Buffer.from(ca ?? []).toString('utf8'),
      signal,
    };
    await this.#until({ what: 'waiting for the API server', limitMs: API_READY_MS, progress, signal }, () =>
      probe(target),
    );
  }

  async #waitForNode(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { commands } = this.#ports;
    const argv = [
      `${PATHS.bin}/kubectl`,
      '--kubeconfig',
      PATHS.adminConf,
      'get',
      'node',
      this.#settings.nodeName,
      '--output',
      'name',
    ] as const;
    const what = `waiting for node ${this.#settings.nodeName} to register`;
    await this.#until({ what, limitMs: REGISTERED_MS, progress, signal }, async () => {
      await commands.run({ argv: [...argv], timeoutMs: 10_000, signal });
    });
  }

  /** Every wait names what it waits for, since when, and the last error; its end names the likely cause. */
  async #until(wait: Wait, attempt: () => Promise<void>): Promise<void> {
    const { clock } = this.#ports;
    const endMs = clock.monotonicMs() + wait.limitMs;
    for (let polls = 0; ; polls++) {
      try {
        return await attempt();
      } catch (error) {
        wait.signal.throwIfAborted();
        wait.progress.say(wait.what, { lastError: error });
        if (polls % 20 === 19) await this.#refuseDeadKubelet(wait);
        if (clock.monotonicMs() > endMs) {
          const said = await this.#lastWords(wait.signal);
          throw new KubernetesError(
            'kubernetes-api-timeout',
            `${wait.what} for ${wait.limitMs / 1000} s: ${said}`,
            { cause: error },
          );
        }
      }
      await clock.sleep(POLL_MS, wait.signal);
    }
  }

  /** A kubelet that restarts again and again says why in its log; waiting longer would only hide it. */
  async #refuseDeadKubelet(wait: Wait): Promise<void> {
    const { units } = this.#ports;
    const status = await units.status(KUBELET_UNIT, wait.signal);
    if (status.restarts < 5 || status.sub === 'running') return;
    const said = await units.lastLog(KUBELET_UNIT, 5, wait.signal);
    throw new KubernetesError(
      'kubernetes-kubelet-failed',
      `${wait.what}: the kubelet ended ${status.restarts} times: ${said.join(' | ')}`,
    );
  }

  /** The API server's own last lines where it got as far as a log, else the kubelet's. */
  async #lastWords(signal: AbortSignal): Promise<string> {
    const { files, units } = this.#ports;
    const pods = await files.list(POD_LOGS);
    const pod = pods.filter((name) => name.startsWith('kube-system_kube-apiserver-')).at(-1);
    if (pod !== undefined) {
      const folder = `${POD_LOGS}/${pod}/kube-apiserver`;
      const newest = (await files.list(folder)).at(-1);
      const raw = newest === undefined ? undefined : await files.read(`${folder}/${newest}`, 4 * 1024 * 1024);
      const lines = Buffer.from(raw ?? [])
        .toString('utf8')
        .trim()
        .split('\n');
      if (lines[0] !== '') return `the API server said: ${lines.slice(-3).join(' | ')}`;
    }
    return `the kubelet said: ${(await units.lastLog(KUBELET_UNIT, 3, signal)).join(' | ')}`;
  }
}

/** The role has gone: the kubelet and the balancer stop; what is on disk stays for a later promotion to judge. */
export async function stopKubernetes(units: UnitPort, signal: AbortSignal): Promise<void> {
  await units.stop(KUBELET_UNIT, signal);
  await units.stop(APILB_UNIT, signal);
}

interface Wait {
  readonly what: string;
  readonly limitMs: number;
  readonly progress: PhaseProgress;
  readonly signal: AbortSignal;
}
