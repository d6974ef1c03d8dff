import type { Component } from '../../../internal/bundle/index.ts';
import { mapConcurrently } from '../../../internal/cleanup/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS } from '../settings.ts';

/** For the largest image on an emulated machine with an encrypted disk. */
const IMPORT_MS = 900_000;
const AT_ONCE = 2;
const FETCHES_AT_ONCE = 3;
const CNI_PLUGINS: readonly string[] = ['bridge', 'loopback', 'portmap', 'host-local', 'flannel'];
/** Programs that only control planes get: workers have no administrator kubeconfig. */
const CONTROL_PLANE_TOOLS: readonly string[] = ['kubectl', 'kubeadm'];
const PINNED = 'io.cri-containerd.pinned=pinned';
/**
 * Images that every node needs: those of the DaemonSets of kubeadm and flannel, and the image of every pod
 * sandbox.
 */
const ON_EVERY_NODE: readonly string[] = ['pause', 'kube-proxy', 'flannel-image'];
/** Scopes of components that only the operator's workstation needs. */
const NOT_ON_NODES: readonly string[] = ['workstation', 'baseline'];

/** How components of the bundle are fetched and installed on this machine. */
export interface ComponentPorts {
  readonly commands: CommandRunner;
  /**
   * Copies a verified blob to this path, executable and synced to disk. Does nothing if the file already has
   * this hash.
   */
  install(component: Component, path: string): Promise<'installed' | 'already'>;
  /** Fetches a blob into the store unless the store has it. Resolves with whether the blob was fetched. */
  fetch(component: Component, signal: AbortSignal, onFetch: () => void): Promise<boolean>;
  /** Path of a blob whose hash was just verified. The blob is fetched if the store does not have it. */
  blobPath(component: Component): Promise<string>;
}

type ImagePorts = Pick<ComponentPorts, 'commands' | 'blobPath'>;

/** Whether a node of any role needs the component. */
export function isForNode(component: Component): boolean {
  return component.kind !== 'chart' && !NOT_ON_NODES.includes(component.scope);
}

/** Whether a node with these roles needs the component. */
export function isForRole(component: Component, roles: { readonly controlPlane: boolean }): boolean {
  if (!isForNode(component)) return false;
  return (
    roles.controlPlane ||
    (component.scope !== 'controlplane' && !CONTROL_PLANE_TOOLS.includes(component.name))
  );
}

/** Fetches the components that the store lacks, three at a time. @returns the number of fetched components */
export async function fetchComponents(
  components: readonly Component[],
  ports: Pick<ComponentPorts, 'fetch'>,
  options: {
    readonly kinds: readonly Component['kind'][];
    readonly onProgress: (name: string, done: number, total: number) => void;
    readonly signal: AbortSignal;
  },
): Promise<number> {
  const queue = components.filter(({ kind }) => options.kinds.includes(kind));
  const total = queue.length;
  let done = 0;
  let fetched = 0;
  await mapConcurrently(queue, FETCHES_AT_ONCE, async (next) => {
    if (await ports.fetch(next, options.signal, () => options.onProgress(next.name, done, total))) fetched++;
    done++;
  });
  return fetched;
}

/** Path at which a program of the bundle is installed. */
export function installPath(name: string): string {
  return CNI_PLUGINS.includes(name) ? `${PATHS.cniBin}/${name}` : `${PATHS.bin}/${name}`;
}

/** Installs the programs of the bundle. @returns the number of new or changed ones */
export async function installBinaries(
  components: readonly Component[],
  ports: Pick<ComponentPorts, 'install'>,
  onProgress: (name: string, done: number, total: number) => void,
): Promise<number> {
  const binaries = components.filter((component) => component.kind === 'binary' && isForNode(component));
  let installed = 0;
  for (const [index, binary] of binaries.entries()) {
    onProgress(binary.name, index, binaries.length);
    if ((await ports.install(binary, installPath(binary.name))) === 'installed') installed++;
  }
  return installed;
}

/**
 * Whether an image is imported first. The kubelet then starts while the other images are imported. These are
 * the images of static pods on a control plane, and of the pods without which a worker is not Ready.
 */
function isEssential({ name, scope }: Component, roles: { readonly controlPlane: boolean }): boolean {
  return roles.controlPlane ? scope === 'controlplane' || name === 'pause' : ON_EVERY_NODE.includes(name);
}

/**
 * Imports the images that containerd lacks, two at a time, and pins them against garbage collection. @returns
 * the number of imported images
 */
export async function importImages(
  components: readonly Component[],
  ports: ImagePorts,
  options: {
    readonly onProgress: (done: number, total: number) => void;
    readonly controlPlane: boolean;
    /** Whether containerd has run before and may already have images. */
    readonly hasRun: boolean;
    /** Called once, after the images without which this node is not Ready are imported. */
    readonly onEssential: () => void;
    /**
     * Resolves when the other images may be imported. An earlier import would slow down the start of the
     * essential pods.
     */
    readonly mayFollow: () => Promise<void>;
    readonly signal: AbortSignal;
  },
): Promise<number> {
  const present = options.hasRun ? await pinnedImages(ports.commands, options.signal) : new Set<string>();
  const images = components.filter((component) => component.kind === 'image' && isForNode(component));
  const missing = images.filter(
    ({ references }) => !(references ?? []).every((reference) => present.has(reference)),
  );
  let done = images.length - missing.length;
  const essentials = missing.filter((image) => isEssential(image, options));
  const others = missing.filter((image) => !essentials.includes(image));
  const queue = [...essentials, ...others.toSorted((a, b) => a.sizeBytes - b.sizeBytes)];
  let essential = essentials.length;
  if (essential === 0) options.onEssential();
  const work = async (): Promise<void> => {
    for (let image = queue.shift(); image !== undefined; image = queue.shift()) {
      if (!essentials.includes(image)) await options.mayFollow();
      options.onProgress(done, images.length);
      await importImage(image, ports, options.signal);
      options.onProgress(++done, images.length);
      if (essentials.includes(image) && --essential === 0) options.onEssential();
    }
  };
  // Not mapConcurrently(): after a failure it would wait for mayFollow(), which may take until the abort.
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return missing.length;
}

async function importImage(image: Component, ports: ImagePorts, signal: AbortSignal): Promise<void> {
  const path = await ports.blobPath(image);
  try {
    // `--local`: the transfer service of containerd would copy the same bytes a second time. The image is unpacked here, also
    // if this node never runs it: with its first container, containerd would have the two minutes of a request of the kubelet,
    // and would start again from the beginning each time.
    await ctr(ports.commands, ['images', 'import', '--local', '--label', PINNED, path], signal);
  } catch (error) {
    signal.throwIfAborted();
    throw new KubernetesError('kubernetes-image-broken', `importing image ${image.name}`, { cause: error });
  }
}

async function pinnedImages(commands: CommandRunner, signal: AbortSignal): Promise<ReadonlySet<string>> {
  const listed = await ctr(commands, ['images', 'list'], signal);
  const lines = listed.split('\n').filter((line) => line.includes(PINNED));
  return new Set(lines.map((line) => line.split(/\s+/)[0] ?? ''));
}

async function ctr(commands: CommandRunner, args: readonly string[], signal: AbortSignal): Promise<string> {
  const target = ['--address', PATHS.containerdSocket, '--namespace', 'k8s.io'];
  // ctr copies its input and exits. Without garbage collection, it needs a sixth less CPU time.
  const { stdout } = await commands.run({
    argv: [`${PATHS.bin}/ctr`, ...target, ...args],
    env: { GOGC: 'off', GOMEMLIMIT: '64MiB' },
    timeoutMs: IMPORT_MS,
    signal,
  });
  return stdout;
}
