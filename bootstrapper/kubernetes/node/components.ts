import type { Component } from '../../../internal/bundle/index.ts';
import type { CommandRunner } from '../../../internal/exec/index.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS } from '../settings.ts';

const IMPORT_MS = 300_000;
const AT_ONCE = 2;
const FETCHES_AT_ONCE = 3;
const CNI_PLUGINS: readonly string[] = ['bridge', 'loopback', 'portmap', 'host-local', 'flannel'];
/** kubectl would have nobody to ask as: an administrator's kubeconfig is on control planes only. kubeadm makes those. */
const ADMINISTRATION: readonly string[] = ['kubectl', 'kubeadm'];
const PINNED = 'io.cri-containerd.pinned=pinned';
/** The pods of kubeadm's and flannel's DaemonSets, and what every pod stands on. */
const ON_EVERY_NODE: readonly string[] = ['pause', 'kube-proxy', 'flannel-image'];
/** What only the workstation runs stays there. */
const NOT_ON_NODES: readonly string[] = ['workstation', 'baseline'];

export interface ComponentPorts {
  readonly commands: CommandRunner;
  /** Copies a checked blob to its place, durable and executable; nothing when it is there with this hash. */
  install(component: Component, path: string): Promise<'installed' | 'already'>;
  /** Sees to it that the store holds a blob; nothing when it does. Answers whether it had to be fetched. */
  fetch(component: Component, signal: AbortSignal, onFetch: () => void): Promise<boolean>;
  /** The path of a blob, checked against its hash just now; fetched first where the store does not hold it. */
  blobPath(component: Component): Promise<string>;
}

type ImagePorts = Pick<ComponentPorts, 'commands' | 'blobPath'>;

export function isForNode(component: Component): boolean {
  return component.kind !== 'chart' && !NOT_ON_NODES.includes(component.scope);
}

/** Whether a node of these roles needs a component. */
export function isForRole(component: Component, roles: { readonly controlPlane: boolean }): boolean {
  if (!isForNode(component)) return false;
  return (
    roles.controlPlane || (component.scope !== 'controlplane' && !ADMINISTRATION.includes(component.name))
  );
}

/** Fetches what the store lacks, a few at once. Answers how many there were. */
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
  const work = async (): Promise<void> => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
      const { name } = next;
      if (await ports.fetch(next, options.signal, () => options.onProgress(name, done, total))) fetched++;
      done++;
    }
  };
  await Promise.all(Array.from({ length: FETCHES_AT_ONCE }, work));
  return fetched;
}

/** Where a program of the bundle belongs. */
export function installPath(name: string): string {
  return CNI_PLUGINS.includes(name) ? `${PATHS.cniBin}/${name}` : `${PATHS.bin}/${name}`;
}

/** Puts the bundle's programs in place. Answers how many were not there yet. */
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
 * Imported first, so that the kubelet starts while the rest comes: what the static pods of a control plane cannot start
 * without, or the pods that every worker gets and is not Ready without.
 */
function isEssential({ name, scope }: Component, roles: { readonly controlPlane: boolean }): boolean {
  return roles.controlPlane ? scope === 'controlplane' || name === 'pause' : ON_EVERY_NODE.includes(name);
}

/** Imports the bundle's images that containerd does not have, two at a time, pinned against image collection. */
export async function importImages(
  components: readonly Component[],
  ports: ImagePorts,
  options: {
    readonly onProgress: (done: number, total: number) => void;
    readonly controlPlane: boolean;
    /** Whether the runtime may have images from before: it is not asked otherwise. */
    readonly hasRun: boolean;
    /** Once, as soon as the images are there without which this node is not Ready. */
    readonly onEssential: () => void;
    /** Resolves when the others may come; they would take the processor from what the essential ones are for. */
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
      await importImage(image, ports, options);
      options.onProgress(++done, images.length);
      if (essentials.includes(image) && --essential === 0) options.onEssential();
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return missing.length;
}

/**
 * What runs on every node of these roles is unpacked now, side by side; anything else by containerd, should a container of
 * it ever come here: most nodes never see one, and unpacking is what costs disk and time.
 */
function isUnpacked(image: Component, roles: { readonly controlPlane: boolean }): boolean {
  return ON_EVERY_NODE.includes(image.name) || isEssential(image, roles);
}

async function importImage(
  image: Component,
  ports: ImagePorts,
  { controlPlane, signal }: { readonly controlPlane: boolean; readonly signal: AbortSignal },
): Promise<void> {
  const path = await ports.blobPath(image);
  try {
    // `--local`: containerd's transfer service hands the same bytes on once more.
    const options = [
      '--local',
      `--no-unpack=${!isUnpacked(image, { controlPlane })}`,
      '--label',
      PINNED,
    ] as const;
    await ctr(ports.commands, ['images', 'import', ...options, path], signal);
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
  const argv = [
    `${PATHS.bin}/ctr`,
    '--address',
    PATHS.containerdSocket,
    '--namespace',
    'k8s.io',
    ...args,
  ] as const;
  // It hands on what it reads and ends: collecting garbage would be a sixth of its work.
  const { stdout } = await commands.run({
    argv: [...argv],
    env: { GOGC: 'off', GOMEMLIMIT: '64MiB' },
    timeoutMs: IMPORT_MS,
    signal,
  });
  return stdout;
}
