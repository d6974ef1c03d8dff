import { join } from 'node:path';
import type { BundleVersions } from '../bundle/index.ts';
import { describeError } from '../errors/index.ts';
import { recipeKey, type BuildCache } from './build-cache.ts';
import type { BuildContext } from './build-context.ts';
import { downloadReleases, type ReleasedPrograms } from './download/download-releases.ts';
import {
  pinnedReleases,
  programsIn,
  type PinnedRelease,
  type ReleaseSource,
} from './download/pinned-releases.ts';
import { programsOf, type PlannedComponent } from './plan-bundle.ts';

/** The released programs that a build uses. */
export interface ReleasedComponents {
  /** The plan. A component with released programs has another key than the same component built from source. */
  readonly planned: readonly PlannedComponent[];
  /** Program → path of its file. */
  readonly programs: ReadonlyMap<string, string>;
  /** Component → the URLs of its programs. */
  readonly sources: ReadonlyMap<string, string>;
  /** The files that `removeDownloads` removes when their programs are part of components. */
  readonly downloads: readonly PinnedRelease[];
}

/**
 * Downloads the released programs of the components that no earlier build has made, and tells in one line which programs are
 * released ones and why the others are built from source.
 */
export async function useReleases(
  context: BuildContext,
  options: {
    readonly versions: BundleVersions;
    readonly planned: readonly PlannedComponent[];
    readonly cache: Pick<BuildCache, 'find'>;
    readonly from: ReleaseSource;
    /** A work directory of this run. */
    readonly directory: string;
  },
): Promise<ReleasedComponents> {
  const { versions, planned, cache, from } = options;
  const releases = pinnedReleases(versions, context.machine.architecture, from);
  const byRelease = await Promise.all(
    planned.map(async (component) => {
      const used = releasesOf(component, releases);
      if (component.cached !== undefined || used === undefined) return { component, used: [] as const };
      const key = recipeKey({ built: component.key, released: used.map(({ hash }) => hash) });
      return { component: { ...component, key, modules: [], cached: await cache.find(key) }, used };
    }),
  );
  const wanted = releases.filter((release) =>
    byRelease.some(
      ({ component, used }) => component.cached === undefined && used.some((each) => each === release),
    ),
  );
  const got = await downloadReleases(context, join(options.directory, 'released'), wanted);
  const hasMissed = (used: readonly PinnedRelease[]): boolean =>
    got.missed.some(({ release }) => used.includes(release));
  const result = byRelease.map(({ component, used }, index) =>
    hasMissed(used) ? (planned[index] ?? component) : component,
  );
  if (wanted.length > 0) {
    context.reporter.say('bundle-releases', describeReleases(planned, result, got.missed));
  }
  return {
    planned: result,
    programs: got.programs,
    sources: new Map(
      byRelease
        .filter(({ component: { key } }, index) => key === result[index]?.key)
        .flatMap(({ component, used }) =>
          used.length === 0 ? [] : [[component.recipe.name, used.map(({ url }) => url).join(', ')] as const],
        ),
    ),
    downloads: wanted,
  };
}

/** The line that tells which programs are released ones and which are built from source. Pure. */
export function describeReleases(
  planned: readonly PlannedComponent[],
  result: readonly PlannedComponent[],
  missed: ReleasedPrograms['missed'],
): string {
  const idsOf = (components: readonly PlannedComponent[]): string =>
    [
      ...new Set(
        components.flatMap(({ modules }) =>
          modules.filter(({ from }) => from.kind === 'modules').map(({ id }) => id),
        ),
      ),
    ].join(', ');
  const isTodo = ({ cached }: PlannedComponent): boolean => cached === undefined;
  const released = idsOf(planned.filter((each, index) => each.key !== result[index]?.key && isTodo(each)));
  const built = idsOf(result.filter(isTodo));
  const parts = [
    ...(released === '' ? [] : [`using upstream's releases of ${released}`]),
    ...(built === '' ? [] : [`building ${built} from source`]),
  ];
  const reasons = [...new Set(missed.map(({ error }) => describeError(error)))];
  const text = [parts.join('; '), ...(reasons.length === 0 ? [] : [`not downloaded: ${reasons.join('; ')}`])];
  return text.map((sentence) => sentence.charAt(0).toUpperCase() + sentence.slice(1)).join('. ');
}

/** The releases of a component; undefined unless they have all of its programs. */
function releasesOf(
  { recipe }: PlannedComponent,
  releases: readonly PinnedRelease[],
): readonly PinnedRelease[] | undefined {
  const programs = programsOf(recipe);
  const used = releases.filter((release) => programsIn(release).some((name) => programs.includes(name)));
  const found = used.flatMap(programsIn);
  return programs.length > 0 && programs.every((name) => found.includes(name)) ? used : undefined;
}
