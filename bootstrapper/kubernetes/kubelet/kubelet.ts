import { dirname } from 'node:path';
import { familiesOf } from '../../../internal/config/index.ts';
import { readText } from '../../../internal/file/index.ts';
import { PlatformError, type SystemPorts } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import { KubernetesError } from '../errors.ts';
import { Secret } from '../../../internal/secret/index.ts';
import type { NodeProbe } from '../controlplane/api-probe.ts';
import { KUBELET_FILES } from '../credentials/key-files.ts';
import { requireText } from '../credentials/key-pair.ts';
import { buildKubeadmConfig } from '../kubeadm/kubeadm-config.ts';
import { kubeletFiles } from './kubelet-config.ts';
import { writeKubeletKubeconfig } from '../credentials/kubelet-credentials.ts';
import { recordServingCertificate } from './serving-certificate.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { ensureMetadataGuard } from '../node/metadata-guard.ts';
import { apiEndpointOf, PATHS, type EtcdClientFiles, type KubernetesSettings } from '../settings.ts';
import { readSharedKeyState, type SharedKeyState } from '../credentials/shared-keys.ts';
import { readControlPlaneGeneration } from '../controlplane/control-plane-generation.ts';
import { buildKernelDefaults, KERNEL_DEFAULTS_FILE, readIpv6Interfaces } from '../node/kernel-defaults.ts';
import { buildKubeletUnit, KUBELET_UNIT } from '../node/units.ts';
import { waitFor } from '../controlplane/wait-for.ts';

const REGISTERED_MS = 120_000;
const KUBELET_DIRECTORY = '/var/lib/kubelet';
/**
 * Resolver configuration of systemd-resolved. If systemd-resolved runs, /etc/resolv.conf contains 127.0.0.53,
 * which pods cannot reach (kubeadm, componentconfigs/kubelet.go).
 */
const RESOLVER_CONF = '/run/systemd/resolve/resolv.conf';

/** Ports (injected dependencies) of the kubelet. */
export interface KubeletPorts extends Omit<SystemPorts, 'log'> {
  readonly checkpoints: StepCheckpoints;
  readonly probeNode: NodeProbe;
}

/**
 * Runs the kubelet of a node. The kubelet's certificates come with the join ticket, or from the new CA on the
 * first node.
 */
export class Kubelet {
  readonly #ports: KubeletPorts;
  readonly #settings: KubernetesSettings;
  readonly #etcd: EtcdClientFiles;

  constructor(ports: KubeletPorts, settings: KubernetesSettings, etcd: EtcdClientFiles) {
    this.#ports = ports;
    this.#settings = settings;
    this.#etcd = etcd;
  }

  /** Writes the configuration file of kubeadm on a control plane. */
  async writeKubeadmConfiguration(): Promise<void> {
    const { files } = this.#ports;
    await files.makeDirectory(dirname(PATHS.kubeadmConfig));
    const keys = await readSharedKeyState(files, this.#etcd);
    const variant = { keys, controlPlaneGeneration: await readControlPlaneGeneration(files) };
    await files.writeAtomic(PATHS.kubeadmConfig, buildKubeadmConfig(this.#settings, this.#etcd, variant));
  }

  /** Writes the kubeconfig of the kubelet. */
  writeKubeconfig(): Promise<void> {
    return writeKubeletKubeconfig(this.#ports.files, this.#settings);
  }

  /**
   * Starts the kubelet. Restarts a running kubelet only if its configuration has changed; pods keep running.
   * @returns whether the kubelet was restarted
   */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<boolean> {
    const { files, checkpoints, units } = this.#ports;
    const keys = await readSharedKeyState(files, this.#etcd);
    const inputs = this.#inputs(keys);
    await this.#ensureMetadataGuard(signal);
    // CIS 4.1.1. The unit has no secrets, and systemd warns about the mode when it reads the unit.
    await units.install(KUBELET_UNIT, buildKubeletUnit(), signal, { mode: 0o600 });
    // Write the configuration even if the kubelet runs: its next start must not use the configuration of an
    // earlier agent version.
    await this.#writeConfiguration(keys);
    if (await checkpoints.isDone('kubelet', inputs)) {
      const { active } = await units.status(KUBELET_UNIT, signal);
      if (active !== 'active') await recordServingCertificate(this.#ports);
      await translated(units.start(KUBELET_UNIT, signal));
      return false;
    }
    progress.report('starting the kubelet');
    await translated(units.restart(KUBELET_UNIT, signal));
    await recordServingCertificate(this.#ports);
    await checkpoints.record('kubelet', inputs);
    return true;
  }

  /** Resolves when the API contains the Node object of this node. */
  async waitUntilRegistered(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const what = `waiting for node ${this.#settings.nodeName} to register`;
    await waitFor(this.#ports, { what, timeoutMs: REGISTERED_MS, progress, signal }, () =>
      this.#findOwnNode(signal),
    );
  }

  /** Requests the Node object with the kubelet's certificate, which this request also tests. */
  async #findOwnNode(signal: AbortSignal): Promise<void> {
    const { files, probeNode } = this.#ports;
    const caPem = await requireText(files, KUBELET_FILES.ca);
    const certPem = await requireText(files, KUBELET_FILES.clientCert);
    const keyPem = new Secret(await requireText(files, KUBELET_FILES.clientKey));
    const { nodeName } = this.#settings;
    await probeNode({ endpoint: apiEndpointOf(this.#settings), nodeName, caPem, certPem, keyPem, signal });
  }

  /**
   * Call this before the first pod runs: a machine that cannot protect its cloud credentials must run no
   * pods.
   */
  async #ensureMetadataGuard(signal: AbortSignal): Promise<void> {
    const { podSecurity } = this.#settings;
    // Clusters of earlier releases do not have this setting. Their workloads may depend on the metadata
    // service.
    const isEnabled = podSecurity?.allowCloudMetadata === false;
    try {
      await ensureMetadataGuard(this.#ports, isEnabled, signal);
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      throw new KubernetesError('kubernetes-metadata-unguarded', error.message, { cause: error });
    }
  }

  async #writeConfiguration(keys: SharedKeyState): Promise<void> {
    const { files } = this.#ports;
    // Workers need this directory too: without it, the kubelet logs an error every second.
    await files.makeDirectory(PATHS.manifests);
    await files.makeDirectory(KUBELET_DIRECTORY, 0o750);
    const hasResolver = (await files.stat(RESOLVER_CONF)) !== undefined;
    const texts = kubeletFiles(this.#settings, keys, hasResolver ? RESOLVER_CONF : undefined);
    for (const [path, text] of Object.entries(texts)) await this.#writeChanged(path, text, 0o600);
    const hasIpv6 = familiesOf(this.#settings.serviceSubnet).includes('IPv6');
    const ipv6 = hasIpv6 ? await readIpv6Interfaces(files) : undefined;
    await files.makeDirectory(dirname(KERNEL_DEFAULTS_FILE), 0o755);
    await this.#writeChanged(KERNEL_DEFAULTS_FILE, buildKernelDefaults(ipv6), 0o644);
  }

  async #writeChanged(path: string, text: string, mode: number): Promise<void> {
    const { files } = this.#ports;
    if ((await readText(files, path)) !== text) await files.writeAtomic(path, text, { mode });
  }

  /**
   * Only the settings that affect the configuration of the kubelet. Other settings would restart the kubelet
   * at a promotion.
   */
  #inputs({ hasKubeletClientsCa }: SharedKeyState): unknown {
    const { version, nodeName, nodeAddress, secondaryAddress, serviceSubnet, host } = this.#settings;
    const { hardening, extraArguments } = this.#settings;
    const settings: unknown[] = [version, nodeName, nodeAddress, serviceSubnet, host];
    // Clusters of earlier releases have none of these settings. This list then omits the missing settings: a
    // changed list would restart the kubelet when the agent is upgraded.
    for (const own of [hardening, extraArguments?.kubelet, secondaryAddress])
      if (own !== undefined) settings.push(own);
    return hasKubeletClientsCa ? [...settings, 'clients-ca'] : settings;
  }
}

/** Converts a failed start of the unit to `kubernetes-kubelet-failed`. */
async function translated(start: Promise<void>): Promise<void> {
  try {
    await start;
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'platform-unit-failed') throw error;
    throw new KubernetesError('kubernetes-kubelet-failed', error.message, { cause: error });
  }
}
