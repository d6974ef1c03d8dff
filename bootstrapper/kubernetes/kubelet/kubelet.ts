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
const KUBELET_FOLDER = '/var/lib/kubelet';
/**
 * Of systemd-resolved, from its start in this boot on. /etc/resolv.conf names 127.0.0.53 where it runs, which is another one in
 * each pod (kubeadm, componentconfigs/kubelet.go).
 */
const RESOLVER_CONF = '/run/systemd/resolve/resolv.conf';

export interface KubeletPorts extends WaitPorts, OwnNodePorts {
  readonly files: FilePort;
  readonly commands: CommandRunner;
  readonly units: UnitPort;
  readonly checkpoints: StepCheckpoints;
}

/** The kubelet of any node. Its credentials come from the ticket or the new CA. */
export class Kubelet {
  readonly #ports: KubeletPorts;
  readonly #settings: KubernetesSettings;
  readonly #etcd: EtcdClientFiles;

  constructor(ports: KubeletPorts, settings: KubernetesSettings, etcd: EtcdClientFiles) {
    this.#ports = ports;
    this.#settings = settings;
    this.#etcd = etcd;
  }

  /** What kubeadm's phases read, on a control plane. */
  async writeKubeadmConfiguration(): Promise<void> {
    const { files } = this.#ports;
    await files.makeDirectory(PATHS.kubeadmConfig.slice(0, PATHS.kubeadmConfig.lastIndexOf('/')));
    const keys = await readSharedKeyState(files, this.#etcd);
    const life = { keys, controlPlaneGeneration: await readControlPlaneGeneration(files) };
    await files.writeAtomic(PATHS.kubeadmConfig, buildKubeadmConfig(this.#settings, this.#etcd, life));
  }

  /** Puts in place what the kubelet proves itself with. */
  writeKubeconfig(): Promise<void> {
    return writeKubeletKubeconfig(this.#ports.files, this.#settings);
  }

  /** A kubelet that runs with this configuration is left alone. */
  async start(progress: PhaseProgress, signal: AbortSignal): Promise<boolean> {
    const { files, checkpoints: marks, units } = this.#ports;
    const keys = await readSharedKeyState(files, this.#etcd);
    const inputs = this.#inputs(keys);
    await this.#guardMetadata(signal);
    await units.install(KUBELET_UNIT, buildKubeletUnit(), signal);
    // Also where it goes on as it runs: what an earlier agent has left there counts no more when it starts the next time.
    await this.#writeConfiguration(keys);
    if (await marks.isDone('kubelet', inputs)) {
      const { active } = await units.status(KUBELET_UNIT, signal);
      if (active !== 'active') await recordServingCertificate(this.#ports);
      await named(units.start(KUBELET_UNIT, signal));
      return false;
    }
    progress.report('starting the kubelet');
    await named(units.restart(KUBELET_UNIT, signal));
    await recordServingCertificate(this.#ports);
    await marks.record('kubelet', inputs);
    return true;
  }

  /**
   * Makes a running kubelet believe the clients' authorities in a file of their own (`placeKubeletClientsCa`). It is restarted
   * the first time, and pods go on; afterwards it follows the file.
   */
  async followClients(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    await this.start(progress, signal);
  }

  /** Until the kubelet has put its node into the API. */
  async waitUntilRegistered(progress: PhaseProgress, signal: AbortSignal): Promise<void> {
    const what = `waiting for node ${this.#settings.nodeName} to register`;
    await waitFor(this.#ports, { what, timeoutMs: REGISTERED_MS, progress, signal }, () =>
      findOwnNode(this.#ports, this.#settings, signal),
    );
  }

  /** Before there are pods: a machine that cannot keep them away from its credentials runs none. */
  async #guardMetadata(signal: AbortSignal): Promise<void> {
    const { podSecurity } = this.#settings;
    // In a cluster that was made before there was this, workloads may count on what they reach.
    const isWanted = podSecurity?.allowCloudMetadata === false;
    try {
      await ensureMetadataGuard(this.#ports, isWanted, signal);
    } catch (error) {
      if (!(error instanceof PlatformError)) throw error;
      throw new KubernetesError('kubernetes-metadata-unguarded', error.message, { cause: error });
    }
  }

  async #writeConfiguration(keys: SharedKeyState): Promise<void> {
    const { files } = this.#ports;
    // Also where no static pod will ever be: a kubelet that finds no directory looks for it, and says so, every second.
    await files.makeDirectory(PATHS.manifests);
    await files.makeDirectory(KUBELET_FOLDER, 0o750);
    const hasResolver = (await files.stat(RESOLVER_CONF)) !== undefined;
    const texts = kubeletFiles(this.#settings, keys, hasResolver ? RESOLVER_CONF : undefined);
    for (const [path, text] of Object.entries(texts)) {
      const found = await files.read(path, MAX_CONFIG_BYTES);
      if (found === undefined || Buffer.from(found).toString('utf8') !== text)
        await files.writeAtomic(path, text, { mode: 0o600 });
    }
  }

  /** Only what the kubelet's own configuration is made of: a promotion must not restart it. */
  #inputs({ hasKubeletClientsCa: forKubelet }: SharedKeyState): unknown {
    const { version, nodeName, nodeAddress, serviceSubnet, host } = this.#settings;
    const own = [version, nodeName, nodeAddress, serviceSubnet, host];
    return forKubelet ? [...own, 'clients-ca'] : own;
  }
}

/** A unit that does not even start: the kubelet has an error of its own for that. */
async function named(start: Promise<void>): Promise<void> {
  try {
    await start;
  } catch (error) {
    if (!(error instanceof PlatformError) || error.code !== 'platform-unit-failed') throw error;
    throw new KubernetesError('kubernetes-kubelet-failed', error.message, { cause: error });
  }
}
