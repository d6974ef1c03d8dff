import { dirname } from 'node:path';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import type { FilePort } from '../../../internal/file/index.ts';
import { PlatformError, type UnitPort } from '../../../internal/platform/index.ts';
import type { PhaseProgress } from '../../phases/index.ts';
import { KubernetesError } from '../errors.ts';
import { findOwnNode, type OwnNodePorts } from './own-node.ts';
import { buildKubeadmConfig } from '../kubeadm/kubeadm-config.ts';
import { kubeletFiles } from './kubelet-config.ts';
import { writeKubeletKubeconfig } from '../credentials/kubelet-credentials.ts';
import { recordServingCertificate } from './serving-certificate.ts';
import type { StepCheckpoints } from '../step-checkpoints.ts';
import { ensureMetadataGuard } from '../node/metadata-guard.ts';
import { PATHS, type EtcdClientFiles, type KubernetesSettings } from '../settings.ts';
import { readSharedKeyState, type SharedKeyState } from '../credentials/shared-keys.ts';
import { readControlPlaneGeneration } from '../controlplane/control-plane-generation.ts';
import { buildKubeletUnit, KUBELET_UNIT } from '../node/units.ts';
import { waitFor, type WaitPorts } from '../controlplane/wait-for.ts';

const REGISTERED_MS = 120_000;
const MAX_CONFIG_BYTES = 64 * 1024;
const KUBELET_DIRECTORY = '/var/lib/kubelet';
/**
 * Resolver configuration of systemd-resolved. Where it runs, /etc/resolv.conf names 127.0.0.53, which is not reachable from pods
 * (kubeadm, componentconfigs/kubelet.go).
 */
const RESOLVER_CONF = '/run/systemd/resolve/resolv.conf';

/** What the kubelet uses of the machine. */
export interface KubeletPorts extends WaitPorts, OwnNodePorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly checkpoints: StepCheckpoints;
}

/** The kubelet of a node. Its certificates come with the join ticket, or from the new CA. */
export class Kubelet {
  readonly #ports: KubeletPorts;
  readonly #settings: KubernetesSettings;
  readonly #etcd: EtcdClientFiles;

  constructor(ports: KubeletPorts, settings: KubernetesSettings, etcd: EtcdClientFiles) {
    this.#ports = ports;
    this.#settings = settings;
    this.#etcd = etcd;
  }

  /** Writes the configuration of kubeadm on a control plane. */
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
   * Starts the kubelet, and restarts a running one only when its configuration has changed; pods keep running.
   * @returns whether it was restarted
   */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<boolean> {
    const { files, checkpoints, units } = this.#ports;
    const keys = await readSharedKeyState(files, this.#etcd);
    const inputs = this.#inputs(keys);
    await this.#ensureMetadataGuard(signal);
    await units.install(KUBELET_UNIT, buildKubeletUnit(), signal);
    // Also for a running kubelet: its next start must not use the configuration of an earlier agent.
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

  /** Resolves when the API has the Node object of this node. */
  async waitUntilRegistered(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const what = `waiting for node ${this.#settings.nodeName} to register`;
    await waitFor(this.#ports, { what, timeoutMs: REGISTERED_MS, progress, signal }, () =>
      findOwnNode(this.#ports, this.#settings, signal),
    );
  }

  /** Runs before the first pod: a machine that cannot protect its cloud credentials must run none. */
  async #ensureMetadataGuard(signal: AbortSignal): Promise<void> {
    const { podSecurity } = this.#settings;
    // Without the setting, from an earlier release, workloads may depend on the metadata service.
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
    // Also on workers: without the directory the kubelet logs an error every second.
    await files.makeDirectory(PATHS.manifests);
    await files.makeDirectory(KUBELET_DIRECTORY, 0o750);
    const hasResolver = (await files.stat(RESOLVER_CONF)) !== undefined;
    const texts = kubeletFiles(this.#settings, keys, hasResolver ? RESOLVER_CONF : undefined);
    for (const [path, text] of Object.entries(texts)) {
      const found = await files.read(path, MAX_CONFIG_BYTES);
      if (found === undefined || Buffer.from(found).toString('utf8') !== text)
        await files.writeAtomic(path, text, { mode: 0o600 });
    }
  }

  /** The settings in the configuration of the kubelet, and no others: a promotion must not restart it. */
  #inputs({ hasKubeletClientsCa }: SharedKeyState): unknown {
    const { version, nodeName, nodeAddress, serviceSubnet, host } = this.#settings;
    const own = [version, nodeName, nodeAddress, serviceSubnet, host];
    return hasKubeletClientsCa ? [...own, 'clients-ca'] : own;
  }
}

/** Translates a failed start of the unit into `kubernetes-kubelet-failed`. */
async function translated(start: Promise<void>): Promise<void> {
  try {
    await start;
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'platform-unit-failed') throw error;
    throw new KubernetesError('kubernetes-kubelet-failed', error.message, { cause: error });
  }
}
