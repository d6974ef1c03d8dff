import { PORTS } from '../../../internal/endpoint/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import type { ApiProbe } from './api-probe.ts';
import { createAdminKubeconfigs, findAdminRefusal } from '../credentials/admin-kubeconfigs.ts';
import { writeAdmissionConfig } from '../apiserver/admission-config.ts';
import { writeAuditPolicy } from '../apiserver/audit-policy.ts';
import { writeAuthenticationConfig } from '../apiserver/authentication-config.ts';
import { createApiServerCredentials } from '../credentials/api-server-credentials.ts';
import { createComponentCredentials } from '../credentials/component-credentials.ts';
import { findServersTrust } from '../credentials/key-pair.ts';
import { createSharedKeys } from '../credentials/create-shared-keys.ts';
import { KubernetesError } from '../errors.ts';
import { kubectl } from '../kubectl.ts';
import type { Kubeadm } from '../kubeadm/kubeadm.ts';
import { Kubelet, type KubeletPorts } from '../kubelet/kubelet.ts';
import { createKubeletCredentials } from '../credentials/kubelet-credentials.ts';
import { renewControlPlaneCertificates } from '../credentials/control-plane-certificates.ts';
import { apiEndpointOf, PATHS, type EtcdClientFiles, type KubernetesSettings } from '../settings.ts';
import { readSharedKeyState, STATIC_PODS, type SharedKeyState } from '../credentials/shared-keys.ts';
import { addKubeProxyProbe } from './kube-proxy-probe.ts';
import { storeOperatorRoles } from './operator-roles.ts';
import { ApiServerDrain, readStaticPodState } from './static-pods.ts';
import { waitFor } from './wait-for.ts';

/**
 * Twice the limit of kubeadm (ControlPlaneComponentHealthCheck, 4 min): emulated machines needed more than that. An API
 * server or a kubelet that keeps failing ends the wait early.
 */
const API_READY_MS = 480_000;
const KEYS_POLL_MS = 500;

/** Ports (injected dependencies) of the control plane. */
export interface ControlPlanePorts extends KubeletPorts {
  readonly kubeadm: Kubeadm;
  readonly probe: ApiProbe;
}

/** Settings of this node's control plane. */
export interface ControlPlaneOptions {
  readonly settings: KubernetesSettings;
  readonly etcd: EtcdClientFiles;
  /** Whether this node creates the cluster. Only this node creates the keys that all control planes share. */
  readonly createsCluster: boolean;
  /** Whether the cluster that this node creates is restored from a backup, with all of its objects. */
  readonly restoresCluster: boolean;
}

/** What kubeadm installs in a new cluster. */
const ADDONS = ['coredns', 'kube-proxy'] as const;

/** Sets up the Kubernetes control plane of this node in steps. Each step may be repeated. */
export class ControlPlane {
  readonly #ports: ControlPlanePorts;
  readonly #options: ControlPlaneOptions;
  readonly #kubelet: Kubelet;

  constructor(ports: ControlPlanePorts, options: ControlPlaneOptions) {
    this.#ports = ports;
    this.#options = options;
    this.#kubelet = new Kubelet(ports, options.settings, options.etcd);
  }

  /**
   * Creates the certificates, the kubeconfigs and the key that encrypts Secrets at rest. Needs no running
   * component.
   */
  async createPki(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { checkpoints } = this.#ports;
    const { createsCluster: creates, settings } = this.#options;
    await this.#kubelet.writeKubeadmConfiguration();
    if (await this.#isDone('pki')) {
      // The node may have been switched off for a long time. Renew expired certificates before any program
      // uses them.
      await this.#renewLeaves(progress);
      await this.#kubelet.writeKubeconfig();
      return progress.reportUnchanged();
    }
    progress.report('creating certificates');
    await this.#begin('pki');
    if (creates) await createSharedKeys(this.#ports);
    else await this.#waitForKeys(progress, signal);
    await createApiServerCredentials(this.#ports, settings);
    if (creates) await createKubeletCredentials(this.#ports, settings);
    await this.#kubelet.writeKubeconfig();
    await createAdminKubeconfigs(this.#ports, settings, creates ? ['admin', 'super-admin'] : ['admin']);
    await this.#renewLeaves(progress);
    await checkpoints.record('pki', this.#inputs());
  }

  /** Writes the static pods, starts the kubelet, and resolves when the API server of this node is ready. */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.#runPods(progress, signal, () => this.#kubelet.start(progress, signal));
  }

  /**
   * Like `start`, for a node that waits for its slot to switch to new keys. It leaves existing static pods
   * unchanged although the keys on disk are new. `rekey` later restarts the static pods while no other
   * control plane restarts, and waits until they are ready. After a crash in its slot, the node keeps its
   * position in the queue only for seconds, so it must resume quickly.
   */
  async resume(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    if ((await this.#ports.files.stat(`${PATHS.manifests}/kube-apiserver.yaml`)) === undefined)
      return this.start(progress, signal);
    await this.#kubelet.start(progress, signal);
  }

  /**
   * Switches a running control plane to the shared keys on disk (`placeKubernetesKeys`). Renews the
   * certificates and restarts the static pods that read keys only when they start. Resolves when the static
   * pods run with the new keys and the API server is ready. The kubelet is restarted last, because it stops
   * and starts the static pods.
   */
  async rekey(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.#runPods(progress, signal, () => Promise.resolve());
    await this.#kubelet.start(progress, signal);
  }

  /**
   * Stores the configuration of kubeadm and kubelet and the rights of operators in the cluster, installs DNS and kube-proxy, and labels
   * the node.
   */
  async storeSettings(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, checkpoints } = this.#ports;
    if (await this.#isDone('settings')) {
      await files.remove(PATHS.superAdminConf); // the `pki` step may have written this file again
      // Clusters of earlier releases lack both.
      await storeOperatorRoles(this.#ports, signal);
      await addKubeProxyProbe(this.#ports, signal);
      return progress.reportUnchanged();
    }
    await this.#begin('settings');
    if (this.#options.createsCluster) {
      progress.report('storing the configuration');
      await this.#callApi(['upload-config', 'all'], signal);
      const addons = this.#options.restoresCluster ? await this.#restoredAddons(signal) : ADDONS;
      if (addons.length > 0) progress.report('installing cluster DNS and kube-proxy');
      await Promise.all([
        ...addons.map((addon) => this.#callApi(['addon', addon], signal)),
        storeOperatorRoles(this.#ports, signal),
      ]);
      await addKubeProxyProbe(this.#ports, signal);
    }
    await this.#kubelet.waitUntilRegistered(progress, signal);
    progress.report('labeling the node');
    await this.#callApi(['mark-control-plane'], signal);
    // The user in this kubeconfig bypasses all authorizers. The file is not needed once the role binding of
    // cluster-admins exists.
    await files.remove(PATHS.superAdminConf);
    await checkpoints.record('settings', this.#inputs());
  }

  /**
   * A restored cluster has DNS and kube-proxy as its operators had changed or removed them, and kubeadm would replace them. Only if the
   * restored cluster has another endpoint of API servers, kube-proxy is written again.
   */
  async #restoredAddons(signal: AbortSignal): Promise<readonly string[]> {
    const read = (kind: string, output: string): Promise<string> => {
      const object = [kind, 'kube-proxy', '--namespace', 'kube-system', '--ignore-not-found'];
      return kubectl(this.#ports.commands, ['get', ...object, '--output', output], signal);
    };
    if ((await read('daemonset', 'name')).trim() === '') return [];
    const kubeconfig = await read('configmap', 'jsonpath={.data.kubeconfig\\.conf}');
    const server = `server: https://${apiEndpointOf(this.#options.settings)}`;
    return kubeconfig.split('\n').some((line) => line.trim() === server) ? [] : ['kube-proxy'];
  }

  /**
   * Forgets the checkpoint of a step before the step runs. If the step is interrupted, it must run again even
   * if the previous inputs return.
   */
  #begin(phase: 'pki' | 'control-plane' | 'settings'): Promise<void> {
    return this.#ports.checkpoints.clear([phase]);
  }

  /**
   * Runs a kubeadm phase that only calls the API. The error includes the API response, which kubeadm does not
   * report.
   */
  async #callApi(phase: readonly [string, ...string[]], signal: AbortSignal): Promise<void> {
    try {
      await this.#ports.kubeadm.initPhase(phase, signal);
    } catch (error) {
      const why = await findAdminRefusal(this.#ports, this.#options.settings, signal);
      if (why === undefined || !(error instanceof KubernetesError)) throw error;
      throw new KubernetesError(error.code, `${error.message}; response to the same user: ${why}`, {
        cause: error.cause,
        details: error.details,
      });
    }
  }

  /** @param prepare runs after the static pods are written, and before this function waits for them */
  async #runPods(
    progress: PhaseProgress,
    signal: AbortSignal,
    prepare: () => Promise<unknown>,
  ): Promise<void> {
    const { files, kubeadm, checkpoints } = this.#ports;
    await writeAdmissionConfig(files, this.#options.settings);
    await writeAuthenticationConfig(files, this.#options.settings);
    await writeAuditPolicy(files);
    const keys = await readSharedKeyState(files, this.#options.etcd);
    // The keys on disk may be newer than the certificates.
    if (keys.podDigests !== undefined) await this.#renewLeaves(progress);
    const withKeys = (inputs: unknown): unknown =>
      keys.podDigests === undefined ? inputs : [inputs, keys.podDigests];
    const isWritten =
      (await files.stat(`${PATHS.manifests}/kube-apiserver.yaml`)) !== undefined &&
      (await this.#isDone('control-plane', withKeys));
    if (isWritten) progress.reportUnchanged();
    else {
      progress.report('writing the static pods');
      // The keys on disk may be newer than the kubelet configuration.
      if (keys.podDigests !== undefined) await this.#kubelet.writeKubeadmConfiguration();
      await this.#begin('control-plane');
      await kubeadm.initPhase(['control-plane', 'all'], signal);
    }
    await prepare();
    await this.#waitForApi(keys, progress, signal);
    if (isWritten) return;
    // kubeadm does not call fsync. After a power cut the files could be empty although the checkpoint exists.
    for (const pod of STATIC_PODS) await files.sync(`${PATHS.manifests}/${pod}.yaml`);
    await checkpoints.record('control-plane', withKeys(this.#inputs()));
  }

  /** Renews certificates that are due, and certificates of a CA that no longer signs. */
  async #renewLeaves(progress: PhaseProgress): Promise<void> {
    const { settings } = this.#options;
    await createComponentCredentials(this.#ports, settings);
    const renewed = await renewControlPlaneCertificates(this.#ports, settings.certificates);
    if (renewed.length > 0) progress.report(`renewed ${renewed.join(', ')}`);
  }

  /**
   * Whether a step is complete. Checkpoints include `runsWorkloads`, but changing this setting repeats no
   * step.
   */
  async #isDone(name: string, as = (inputs: unknown): unknown => inputs): Promise<boolean> {
    const { checkpoints } = this.#ports;
    const found = await Promise.all(
      [true, false].map((runs) => checkpoints.isDone(name, as(this.#inputs(runs)))),
    );
    return found.includes(true);
  }

  #inputs(runsWorkloads = this.#options.settings.runsWorkloads): unknown {
    // Changing the lifetimes of certificates or the taints of the node repeats no step.
    const { certificates: _, taints: _taints, ...settings } = this.#options.settings;
    return [{ ...settings, runsWorkloads }, this.#options.etcd];
  }

  /**
   * Waits for the shared keys. This method never creates them: a second CA would make a second cluster. A
   * node that joins has the keys already; a promoted node requests them when it learns its role.
   */
  async #waitForKeys(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, clock } = this.#ports;
    for (;;) {
      const stats = await Promise.all(SHARED_KEYS.map((path) => files.stat(path)));
      const path = SHARED_KEYS[stats.indexOf(undefined)];
      if (path === undefined) return;
      progress.report(`waiting for the shared keys of the control planes: ${path} not found`);
      await clock.sleep(KEYS_POLL_MS, signal);
    }
  }

  async #waitForApi(keys: SharedKeyState, progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const { files, probe } = this.#ports;
    const caPem = (await findServersTrust(files)) ?? '';
    const target = { host: this.#options.settings.nodeAddress, port: PORTS.apiServer, caPem, signal };
    const drain = new ApiServerDrain(this.#ports);
    const what = 'waiting for the API server';
    await waitFor(this.#ports, { what, timeoutMs: API_READY_MS, progress, signal }, async () => {
      const now = await readStaticPodState(files, keys);
      if (now.stale.length === 0) return probe(target);
      await drain.check(now, () => probe(target), signal);
      throw new Error(`not running with the keys on disk yet: ${now.stale.join(', ')}`);
    });
  }
}

const SHARED_KEYS = [
  ...['ca.crt', 'ca.key', 'front-proxy-ca.crt', 'front-proxy-ca.key', 'sa.key', 'sa.pub'].map(
    (name) => `${PATHS.pki}/${name}`,
  ),
  PATHS.encryption,
];
