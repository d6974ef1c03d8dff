import { PORTS } from '../../../internal/endpoint/index.ts';
import type { UnitPort } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import type { ApiProbe } from './api-probe.ts';
import { createAdminKubeconfigs, findAdminRefusal } from '../credentials/admin-kubeconfigs.ts';
import { writeAdmissionConfig } from './admission-config.ts';
import { createApiServerCredentials } from '../credentials/api-server-credentials.ts';
import { createComponentCredentials } from '../credentials/component-credentials.ts';
import { createSharedKeys } from '../credentials/create-shared-keys.ts';
import { KubernetesError } from '../errors.ts';
import type { Kubeadm } from '../kubeadm/kubeadm.ts';
import { Kubelet, type KubeletPorts } from '../kubelet/kubelet.ts';
import { removeRetiredCas } from './retired-cas.ts';
import { createKubeletCredentials } from '../credentials/kubelet-credentials.ts';
import { renewControlPlaneCertificates } from '../credentials/control-plane-certificates.ts';
import { PATHS, type EtcdClientFiles, type KubernetesSettings } from '../settings.ts';
import { readSharedKeyState, STATIC_PODS, type SharedKeyState } from '../credentials/shared-keys.ts';
import { ApiServerDrain, readStaticPodState } from './static-pods.ts';
import { KUBELET_UNIT } from '../node/units.ts';
import { waitFor } from './wait-for.ts';

const API_READY_MS = 240_000;
const KEYS_POLL_MS = 500;
const PEM_BYTES = 256 * 1024;

export interface ControlPlanePorts extends KubeletPorts {
  readonly kubeadm: Kubeadm;
  readonly probe: ApiProbe;
}

export interface ControlPlaneOptions {
  readonly settings: KubernetesSettings;
  readonly etcd: EtcdClientFiles;
  /** Whether this node creates the cluster: only then it may make the keys that all control planes share. */
  readonly createsCluster: boolean;
}

/** The Kubernetes control plane of this node, step by step. Each step may be repeated. */
export class ControlPlane {
  readonly #ports: ControlPlanePorts;
  readonly #options: ControlPlaneOptions;
  readonly #kubelet: Kubelet;

  constructor(ports: ControlPlanePorts, options: ControlPlaneOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#kubelet = new Kubelet(ports, options.settings, options.etcd);
  }

  /** Certificates, kubeconfigs and the key that encrypts secrets at rest. Needs nothing that runs. */
  async createPki(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, checkpoints: marks, clock } = this.#ports;
    const { createsCluster: creates, settings } = this.#options;
    await this.#kubelet.writeKubeadmConfiguration();
    const credentials = { files, nowMs: () => clock.nowMs() };
    if (await this.#isDone('pki')) {
      // A node that was off for long: before anything is started that would be refused with what ran out.
      await this.#renewLeaves(progress);
      await this.#kubelet.writeKubeconfig();
      return progress.reportUnchanged();
    }
    progress.report('making certificates');
    await this.#begin('pki');
    if (creates) await createSharedKeys(credentials);
    else await this.#waitForKeys(progress, signal);
    await createApiServerCredentials(credentials, settings);
    if (creates) await createKubeletCredentials(credentials, settings);
    await this.#kubelet.writeKubeconfig();
    await createAdminKubeconfigs(credentials, settings, creates ? ['admin', 'super-admin'] : ['admin']);
    await this.#renewLeaves(progress);
    await marks.record('pki', this.#inputs());
  }

  /** Static pods, kubelet, and the wait until the API server of this node is ready. */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.#runPods(progress, signal, () => this.#kubelet.start(progress, signal));
  }

  /**
   * `start` while this node's turn to take new keys is to come: static pods that were written before stay as they are, also
   * where the keys on disk are others by now. `rekey` starts them anew, when no other control plane does, and it is `rekey`
   * that waits for them: an earlier life may have been killed in its turn, and then its place is kept for seconds only.
   */
  async resume(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    if ((await this.#ports.files.stat(`${PATHS.manifests}/kube-apiserver.yaml`)) === undefined)
      return this.start(progress, signal);
    await this.#kubelet.start(progress, signal);
  }

  /**
   * Brings the shared keys that are on disk now (`settleKubernetes`) into force while the control plane runs: what it shows
   * is of the authorities in force, and those static pods start anew that read something only at their start. Resolves
   * when they run with it and the API server is ready. The kubelet, where it has to be restarted, comes last: not
   * while it stops and starts static pods.
   */
  async rekey(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.#runPods(progress, signal, () => Promise.resolve());
    await this.#kubelet.followClients(progress, signal);
  }

  /** What the cluster keeps about itself: kubeadm's and the kubelet's configuration, DNS and proxy, the node's labels. */
  async storeSettings(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, checkpoints: marks } = this.#ports;
    if (await this.#isDone('settings')) {
      await files.remove(PATHS.superAdminConf); // certificates may have been made anew since
      return progress.reportUnchanged();
    }
    await this.#begin('settings');
    if (this.#options.createsCluster) {
      progress.report('storing the configuration');
      await this.#callApi(['upload-config', 'all'], signal);
      progress.report('installing cluster DNS and the service proxy');
      await Promise.all([
        this.#callApi(['addon', 'coredns'], signal),
        this.#callApi(['addon', 'kube-proxy'], signal),
      ]);
    }
    await this.#kubelet.waitUntilRegistered(progress, signal);
    progress.report('labelling the node');
    await this.#callApi(['mark-control-plane'], signal);
    // It passes every authorizer; nobody needs it once cluster-admins are bound.
    await files.remove(PATHS.superAdminConf);
    await marks.record('settings', this.#inputs());
  }

  /** What is begun with other inputs and not ended is done with neither, also when the earlier ones come back. */
  #begin(phase: 'pki' | 'control-plane' | 'settings'): Promise<void> {
    return this.#ports.checkpoints.clear([phase]);
  }

  /** A phase of kubeadm that only asks the API; fails with what the API says. */
  async #callApi(phase: readonly [string, ...string[]], signal: AbortSignal): Promise<void> {
    try {
      await this.#ports.kubeadm.initPhase(phase, signal);
    } catch (error) {
      const why = await findAdminRefusal(this.#ports, this.#options.settings, signal);
      if (why === undefined || !(error instanceof KubernetesError)) throw error;
      throw new KubernetesError(error.code, `${error.message}; asked as the same user: ${why}`, {
        cause: error.cause,
        details: error.details,
      });
    }
  }

  /** @param prepare what is needed between their writing and the wait for them */
  async #runPods(
    progress: PhaseProgress,
    signal: AbortSignal,
    prepare: () => Promise<unknown>,
  ): Promise<void> {
    const { files, kubeadm, checkpoints: marks } = this.#ports;
    await writeAdmissionConfig(files, this.#options.settings.podSecurity);
    const keys = await readSharedKeyState(files, this.#options.etcd);
    // They may have come after the certificates were made, and what is shown is to be of those in force.
    if (keys.podDigests !== undefined) await this.#renewLeaves(progress);
    const withKeys = (inputs: unknown): unknown =>
      keys.podDigests === undefined ? inputs : [inputs, keys.podDigests];
    const isWritten =
      (await files.stat(`${PATHS.manifests}/kube-apiserver.yaml`)) !== undefined &&
      (await this.#isDone('control-plane', withKeys));
    if (isWritten) progress.reportUnchanged();
    else {
      progress.report('writing the static pods');
      // Keys may have come since it was written.
      if (keys.podDigests !== undefined) await this.#kubelet.writeKubeadmConfiguration();
      await this.#begin('control-plane');
      await kubeadm.initPhase(['control-plane', 'all'], signal);
    }
    await prepare();
    await this.#waitForApi(keys, progress, signal);
    if (isWritten) return;
    // kubeadm does not: behind the mark a power cut would leave them empty for good.
    for (const pod of STATIC_PODS) await files.sync(`${PATHS.manifests}/${pod}.yaml`);
    await marks.record('control-plane', withKeys(this.#inputs()));
  }

  /** Those that are due, and those of an authority that is not in force any more. */
  async #renewLeaves(progress: PhaseProgress): Promise<void> {
    const { files, clock } = this.#ports;
    const { settings } = this.#options;
    const credentials = { files, nowMs: () => clock.nowMs() };
    await createComponentCredentials(credentials, settings);
    const renewed = await renewControlPlaneCertificates(credentials, settings.certificates);
    if (renewed.length > 0) progress.report(`renewed ${renewed.join(', ')}`);
  }

  /**
   * Extensions are told whom to believe by the API servers, who only ever add to it. May be called when no API server
   * believes the previous authorities any more, and again.
   */
  removeRetiredCas(signal: AbortSignal): Promise<void> {
    return removeRetiredCas(this.#ports, signal);
  }

  /** Which pods may run here is in the marks, and no reason to make anything anew. */
  async #isDone(name: string, as = (inputs: unknown): unknown => inputs): Promise<boolean> {
    const { checkpoints: marks } = this.#ports;
    const found = await Promise.all([true, false].map((runs) => marks.isDone(name, as(this.#inputs(runs)))));
    return found.includes(true);
  }

  #inputs(runsWorkloads = this.#options.settings.runsWorkloads): unknown {
    // How long certificates live is no reason to make the others anew.
    const { certificates: _, ...settings } = this.#options.settings;
    return [{ ...settings, runsWorkloads }, this.#options.etcd];
  }

  /**
   * They are never made here: a second CA would be a second cluster. A node that joins has them before it is a member; one
   * that is promoted asks for them when it learns of its role.
   */
  async #waitForKeys(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, clock } = this.#ports;
    for (;;) {
      const stats = await Promise.all(SHARED_KEYS.map((path) => files.stat(path)));
      const path = SHARED_KEYS[stats.indexOf(undefined)];
      if (path === undefined) return;
      progress.report(`waiting for the keys that control planes share: ${path} is not there`);
      await clock.sleep(KEYS_POLL_MS, signal);
    }
  }

  async #waitForApi(keys: SharedKeyState, progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, probe } = this.#ports;
    const ca = await files.read(`${PATHS.pki}/ca.crt`, PEM_BYTES);
    const target = {
      host: this.#options.settings.nodeAddress,
      port: PORTS.apiServer,
      caPem: Buffer.from(ca ?? []).toString('utf8'),
      signal,
    };
    const drain = new ApiServerDrain(this.#ports);
    const what = 'waiting for the API server';
    await waitFor(this.#ports, { what, timeoutMs: API_READY_MS, progress, signal }, async () => {
      const now = await readStaticPodState(files, keys);
      if (now.stale.length === 0) return probe(target);
      await drain.check(now, () => probe(target), signal);
      throw new Error(`not started with the keys on disk: ${now.stale.join(', ')}`);
    });
  }
}

const SHARED_KEYS = [
  ...['ca.crt', 'ca.key', 'front-proxy-ca.crt', 'front-proxy-ca.key', 'sa.key', 'sa.pub'].map(
    (name) => `${PATHS.pki}/${name}`,
  ),
  PATHS.encryption,
];

/** Nothing of Kubernetes is wanted here: the kubelet stops; what is on disk stays for a later role to judge. */
export async function stopKubernetes(units: UnitPort, signal: AbortSignal): Promise<void> {
  await units.stop(KUBELET_UNIT, signal);
}
