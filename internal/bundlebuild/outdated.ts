import { z } from 'zod';
import {
  GO_TOOLCHAIN,
  HELD_RELEASES,
  KUBERNETES_VERSIONS,
  MINORS_OF_KUBERNETES,
  versionsFor,
} from '../bundle/index.ts';
import { describeError } from '../errors/index.ts';
import type { BuildContext } from './build-context.ts';
import type { HttpPort } from './download/http-port.ts';
import { BundleBuildError } from './errors.ts';
import { moduleProxy } from './golang/go-toolchain.ts';
import { goRecipes } from './recipes/go-recipes.ts';

const MAX_BYTES = 32 * 1024 * 1024;
/** `v1.37.2` or `v0.0.1-go1.26.8.linux-amd64`; prereleases do not match. */
const VERSION = /^v(?:0\.0\.1-go)?(\d+)\.(\d+)\.(\d+)(?:\.linux-amd64)?$/;
const TOOLCHAIN = 'golang.org/toolchain';
/** The index of the Go vulnerability database (https://go.dev/doc/security/vuln/database, API). */
const VULNERABILITIES = 'index/modules.json';

const indexShape = z.array(
  z.object({
    path: z.string(),
    vulns: z.array(z.object({ id: z.string().max(64), fixed: z.string().optional() })),
  }),
);

/** A Go module of the bundles, pinned and as its project has released it. */
export interface PinnedModule {
  readonly module: string;
  readonly pinned: string;
  /** The versions of Kubernetes whose bundles are built with it. */
  readonly kubernetes: readonly string[];
  /** The newest patch of the pinned minor version. */
  readonly newestPatch: string;
  /** The newest release, also of a newer major version, which is another module. */
  readonly newest: string;
  /** A newer release that bundles should use: a patch, or a minor or major version. */
  readonly update: string | undefined;
  /** Why a newer release is not an update. */
  readonly heldBack: string | undefined;
  /**
   * Vulnerabilities of the pinned version; undefined when the database could not be read. Vulnerabilities of its
   * dependencies do not count.
   */
  readonly vulnerabilities: readonly string[] | undefined;
}

/** All modules, and why vulnerabilities are unknown; undefined when they are known. */
export interface Outdated {
  readonly modules: readonly PinnedModule[];
  readonly vulnerabilitiesUnknown: string | undefined;
  /** `unknown`: no update was found, but vulnerabilities could not be read. */
  readonly verdict: 'current' | 'outdated' | 'unknown';
}

/**
 * Compares the pinned version of every Go module with the versions that its project has released, according to the module proxy
 * (GOPROXY), and with the Go vulnerability database (GOVULNDB).
 * @throws BundleBuildError `bundlebuild-download`
 */
export async function findOutdated({
  ports,
  env,
  signal,
}: Pick<BuildContext, 'env' | 'signal'> & {
  readonly ports: Pick<BuildContext['ports'], 'http'>;
}): Promise<Outdated> {
  const get = (url: string): Promise<string> => readText(ports.http, url, signal);
  const proxy = moduleProxy(env['GOPROXY']);
  const lists = new Map<string, Promise<readonly string[]>>();
  const released = (module: string): Promise<readonly string[]> => {
    const list = lists.get(module) ?? releasesOf(module, (path) => get(`${proxy}/${path}/@v/list`));
    lists.set(module, list);
    return list;
  };
  const database = (env['GOVULNDB'] ?? 'https://vuln.go.dev').replace(/\/+$/, '');
  const known = await get(`${database}/${VULNERABILITIES}`)
    .then((text) => ({ index: indexShape.parse(JSON.parse(text)) }))
    .catch((error: unknown) => {
      signal.throwIfAborted();
      return { why: describeError(error) };
    });
  const pinnedOnes = pinnedModules();
  const modules = await Promise.all(
    pinnedOnes.map(async ({ module, pinned, kubernetes }) => ({
      ...{ module, pinned: shown(pinned), kubernetes },
      ...compareReleases({
        ...{ module, pinned },
        // Several versions of Kubernetes pin several minors of a module. The newest of them is compared with new minors.
        newestPinned: newestOf(pinnedOnes.flatMap((each) => (each.module === module ? [each.pinned] : []))),
        released: await released(module),
      }),
      vulnerabilities: 'index' in known ? vulnerabilitiesOf(known.index, module, shown(pinned)) : undefined,
    })),
  );
  const isOutdated = modules.some(
    ({ update, vulnerabilities = [] }) => update !== undefined || vulnerabilities.length > 0,
  );
  const verdict = isOutdated ? 'outdated' : 'index' in known ? 'current' : 'unknown';
  return { modules, vulnerabilitiesUnknown: 'why' in known ? known.why : undefined, verdict };
}

/** All versions of a module. A major version above 1 is a module of its own, so the next ones are asked for. */
async function releasesOf(
  module: string,
  list: (path: string) => Promise<string>,
): Promise<readonly string[]> {
  const versions = (await list(module)).split('\n');
  if (module === TOOLCHAIN) return versions;
  const [, path = module, suffix = '1'] = /^(.*)\/v(\d+)$/.exec(module) ?? [];
  const next = await list(`${path}/v${Number(suffix) + 1}`).catch((error: unknown) => {
    const status = error instanceof BundleBuildError ? error.details['status'] : undefined;
    if (status === 404 || status === 410) return '';
    throw error;
  });
  return [...versions, ...next.split('\n')];
}

function compareReleases(given: {
  readonly module: string;
  readonly pinned: string;
  readonly newestPinned: string;
  readonly released: readonly string[];
}): Pick<PinnedModule, 'newestPatch' | 'newest' | 'update' | 'heldBack'> {
  const { module, pinned, newestPinned, released } = given;
  const held = HELD_RELEASES[module];
  const isHeld = (each: string): boolean =>
    held !== undefined && compareBeginnings(each, held.from) >= 0 && compareBeginnings(each, held.to) <= 0;
  const isSameMinor = (each: string): boolean => compareBeginnings(each, minorOf(pinned)) === 0;
  const decidesOnMinor = !MINORS_OF_KUBERNETES.some((prefix) => module.startsWith(prefix));
  const versions = [pinned, ...released].filter((each) => partsOf(each) !== undefined);
  const usable = versions.filter((each) => !isHeld(each));
  const [patch, newest] = [newestOf(usable.filter(isSameMinor)), newestOf(usable)];
  const isNewMinor = decidesOnMinor && compareVersions(newest, newestPinned) > 0;
  const update = isNewMinor ? newest : compareVersions(patch, pinned) > 0 ? patch : undefined;
  return {
    newestPatch: shown(newestOf(versions.filter(isSameMinor))),
    newest: shown(newestOf(versions)),
    update: update && shown(update),
    heldBack: versions.some((each) => isHeld(each)) ? held?.reason : undefined,
  };
}

/** Each pair of a module and a version once, with the Kubernetes versions that need it. */
function pinnedModules(): readonly Pick<PinnedModule, 'module' | 'pinned' | 'kubernetes'>[] {
  const needed = KUBERNETES_VERSIONS.flatMap((kubernetes) =>
    goRecipes(versionsFor(kubernetes)).flatMap(({ from }) =>
      from.kind === 'own' ? [] : from.modules.map((module) => ({ module, kubernetes })),
    ),
  );
  const toolchain = `${TOOLCHAIN}@v0.0.1-go${GO_TOOLCHAIN.version}.linux-amd64`;
  const all = [...needed, ...KUBERNETES_VERSIONS.map((kubernetes) => ({ module: toolchain, kubernetes }))];
  return [...new Set(all.map(({ module }) => module))].map((each) => {
    const [module = '', pinned = ''] = each.split('@');
    const kubernetes = new Set(all.flatMap((other) => (other.module === each ? [other.kubernetes] : [])));
    return { module, pinned, kubernetes: [...kubernetes] };
  });
}

/** IDs of the entries that no version up to this one fixes. */
function vulnerabilitiesOf(
  index: z.infer<typeof indexShape>,
  module: string,
  version: string,
): readonly string[] {
  // Vulnerabilities of the Go toolchain are listed for its standard library and its commands.
  const paths = module === TOOLCHAIN ? ['stdlib', 'toolchain'] : [module];
  const entries = index.filter(({ path }) => paths.includes(path)).flatMap(({ vulns }) => vulns);
  return [
    ...new Set(
      entries
        .filter(({ fixed }) => fixed === undefined || compareVersions(`v${fixed}`, version) > 0)
        .map(({ id }) => id),
    ),
  ];
}

function newestOf(versions: readonly string[]): string {
  return versions.reduce((newest, each) => (compareVersions(each, newest) > 0 ? each : newest));
}

/** Negative when the first version is older. Versions that are no releases are older than all others. */
function compareVersions(one: string, other: string): number {
  const [a = [], b = []] = [partsOf(one), partsOf(other)];
  for (const index of [0, 1, 2]) {
    const difference = (a[index] ?? -1) - (b[index] ?? -1);
    if (difference !== 0) return difference;
  }
  return 0;
}

/** Compares a version with the beginning of one: `v3` stands for all versions of the major. */
function compareBeginnings(version: string, beginning: string): number {
  const parts = partsOf(version) ?? [];
  for (const [index, part] of beginning.slice(1).split('.').map(Number).entries()) {
    const difference = (parts[index] ?? -1) - part;
    if (difference !== 0) return difference;
  }
  return 0;
}

function minorOf(version: string): string {
  return `v${(partsOf(version) ?? []).slice(0, 2).join('.')}`;
}

function partsOf(version: string): readonly number[] | undefined {
  return VERSION.exec(version)?.slice(1).map(Number);
}

/** The version of a Go toolchain as people write it (`v1.26.8`), without the additions of the module proxy. */
function shown(version: string): string {
  return `v${(partsOf(version) ?? []).join('.')}`;
}

async function readText(http: HttpPort, url: string, signal: AbortSignal): Promise<string> {
  const response = await http.get(url, { signal });
  const chunks: Uint8Array[] = [];
  let sizeBytes = 0;
  for await (const chunk of response?.body ?? []) {
    sizeBytes += chunk.length;
    if (sizeBytes > MAX_BYTES)
      throw new BundleBuildError('bundlebuild-download', `downloading ${url}: more than ${MAX_BYTES} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}
