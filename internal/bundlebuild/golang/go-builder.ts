import { join } from 'node:path';
import type { CommandResult } from '../../exec/index.ts';
import type { BuildContext } from '../build-context.ts';
import type { GoModuleRecipe } from '../recipes/recipe.ts';

/** Peak memory while the largest program (kube-controller-manager) is linked, measured. */
const LINK_BYTES = 2 * 1024 ** 3;
const MAX_GO_MOD_BYTES = 4 * 1024 * 1024;

/** The user's settings for access to module servers. None of them changes the result of a build. */
const NETWORK_SETTINGS = [
  'GOPROXY', 'GONOPROXY', 'GOSUMDB', 'GONOSUMDB', 'GOPRIVATE', 'GOAUTH',
  'HTTP_PROXY', 'HTTPS_PROXY', 'NO_PROXY', 'http_proxy', 'https_proxy', 'no_proxy',
  'SSL_CERT_FILE', 'SSL_CERT_DIR',
] as const; // prettier-ignore

/** A temporary Go module whose sources are downloaded. */
export interface PreparedModule {
  readonly recipe: GoModuleRecipe;
  readonly directory: string;
  /** Number of Go packages that its programs consist of. */
  readonly packages: number;
}

/** Runs the `go` command of one toolchain in temporary modules below one directory. */
export class GoBuilder {
  readonly #context: BuildContext;
  readonly #goroot: string;
  readonly #directory: string;

  constructor(context: BuildContext, options: { readonly goroot: string; readonly directory: string }) {
    this.#context = context;
    this.#goroot = options.goroot;
    this.#directory = options.directory;
  }

  /**
   * Writes a temporary Go module and downloads all sources. Only the recipe determines the versions of all
   * dependencies (minimal version selection); Go checks their bytes against its checksum database.
   */
  async prepare(recipe: GoModuleRecipe): Promise<PreparedModule> {
    const directory = join(this.#directory, recipe.id);
    await this.#context.ports.files.makeDirectory(join(directory, 'out'), 0o755);
    // Version 1.21 is only a start: `go get` raises it to the language version of the modules.
    await this.#write(join(directory, 'go.mod'), `module bundle.invalid/${recipe.id}\n\ngo 1.21\n`);
    if (recipe.from.kind === 'own') await this.#copyOwn(recipe, directory);
    else await this.#require(recipe.from.modules, directory, recipe);
    // Tests import modules that the programs of their module do not need.
    const tests = Object.values(recipe.tests ?? {}).map((path) => withVersion(path, recipe));
    if (tests.length > 0) await this.#go(recipe, directory, ['get', '-t', ...tests]);
    const argv = ['list', '-deps', ...tagsOf(recipe), ...packagesOf(recipe)];
    const listed = await this.#go(recipe, directory, argv);
    return { recipe, directory, packages: listed.stdout.split('\n').length - 1 };
  }

  /** Compiles and links. Returns the path of each program; `onPackage` gets each line of `go build -v`. */
  async build(
    { recipe, directory }: PreparedModule,
    onPackage: (line: string) => void,
  ): Promise<ReadonlyMap<string, string>> {
    const linkStatically = recipe.cgo ? ['-linkmode external -extldflags -static'] : [];
    const linkFlags = ['-s', '-w', ...recipe.ldflags, ...linkStatically].join(' ');
    // One run compiles shared packages only once. -p limits the number of concurrent compilers and linkers.
    const flags = ['-v', '-trimpath', '-p', String(parallelism(this.#context.machine)), ...tagsOf(recipe)];
    const output = ['-ldflags', linkFlags, '-o', `${directory}/out/`];
    await this.#go(recipe, directory, ['build', ...flags, ...output, ...packagesOf(recipe)], onPackage);
    const built = new Map<string, string>();
    for (const [name, path] of Object.entries(recipe.programs))
      built.set(name, join(directory, 'out', outputName(path)));
    for (const [name, path] of Object.entries(recipe.tests ?? {})) {
      const target = join(directory, 'out', name);
      // Vet would examine every package again, dependencies included.
      const argv = ['test', '-c', '-vet=off', ...flags, '-ldflags', linkFlags, '-o', target, path];
      await this.#go(recipe, directory, argv, onPackage);
      built.set(name, target);
    }
    return built;
  }

  async #require(modules: readonly string[], directory: string, recipe: GoModuleRecipe): Promise<void> {
    for (const module of modules) {
      const replaced = await this.#stagingReplacements(recipe, directory, module);
      if (replaced.length > 0) await this.#go(recipe, directory, ['mod', 'edit', ...replaced]);
    }
    await this.#go(recipe, directory, ['get', ...modules]);
  }

  /**
   * The go.mod of k8s.io/kubernetes replaces its staging modules by directories of its repository. Those do not exist in another
   * module, but the same code is published as modules of version v0.MINOR.PATCH.
   *
   * Modules that only tests need require the published versions by name. Go would then compile every package again, because the
   * version is part of its compiled path. A recipe with tests therefore excludes these versions: the requirement of
   * k8s.io/kubernetes (v0.0.0) remains, and the tests share what the programs of the same release have compiled.
   */
  async #stagingReplacements(
    recipe: GoModuleRecipe,
    directory: string,
    module: string,
  ): Promise<readonly string[]> {
    const [, minorAndPatch] = /^k8s\.io\/kubernetes@v1\.(.+)$/.exec(module) ?? [];
    if (minorAndPatch === undefined) return [];
    const downloaded = await this.#go(recipe, directory, ['mod', 'download', '-json', module]);
    const { GoMod } = JSON.parse(downloaded.stdout) as { readonly GoMod: string };
    const goMod = await this.#context.ports.files.read(GoMod, MAX_GO_MOD_BYTES);
    const names = stagingModules(Buffer.from(goMod ?? []).toString());
    const published = names.map((name) => `${name}@v0.${minorAndPatch}`);
    const excluded = recipe.tests === undefined ? [] : published.map((version) => `-exclude=${version}`);
    return [...names.map((name, at) => `-replace=${name}=${published[at] ?? ''}`), ...excluded];
  }

  async #copyOwn(recipe: GoModuleRecipe, directory: string): Promise<void> {
    for (const name of Object.values(recipe.programs)) {
      const source = await this.#context.ports.files.read(
        join(this.#context.sources.programs, name, 'main.go'),
        MAX_GO_MOD_BYTES,
      );
      if (source === undefined)
        throw new TypeError(`building ${name}: main.go is not part of this installation`);
      await this.#context.ports.files.makeDirectory(join(directory, name), 0o755);
      await this.#write(join(directory, name, 'main.go'), source);
    }
  }

  async #write(path: string, content: string | Uint8Array): Promise<void> {
    await this.#context.ports.files.writeAtomic(path, content, { mode: 0o644 });
  }

  #go(
    recipe: GoModuleRecipe,
    directory: string,
    args: readonly string[],
    onLine?: (line: string) => void,
  ): Promise<CommandResult> {
    return this.#context.ports.commands.run({
      argv: [join(this.#goroot, 'bin', 'go'), ...args],
      cwd: directory,
      env: this.#environment(recipe),
      ...(onLine === undefined ? {} : { onLine: (line, stream) => stream === 'stderr' && onLine(line) }),
      signal: this.#context.signal,
    });
  }

  /** The whole environment: the user's other Go settings must not change the bytes of the result. */
  #environment(recipe: GoModuleRecipe): Record<string, string> {
    const { env, cache, machine } = this.#context;
    const passed = NETWORK_SETTINGS.flatMap((name) => {
      const value = env[name];
      return value === undefined ? [] : [[name, value] as const];
    });
    return {
      ...Object.fromEntries(passed),
      PATH: env['PATH'] ?? '/usr/bin:/bin',
      HOME: env['HOME'] ?? '/',
      GOROOT: this.#goroot,
      GOTOOLCHAIN: 'local',
      GOMODCACHE: join(cache, 'go', 'mod'),
      GOCACHE: join(cache, 'go', 'build'),
      GOENV: 'off',
      GOWORK: 'off',
      GOFLAGS: '-mod=mod -buildvcs=false',
      GOTELEMETRY: 'off',
      GOOS: 'linux',
      GOARCH: machine.architecture,
      GOAMD64: 'v1',
      GOARM64: 'v8.0',
      CC: 'gcc',
      CGO_ENABLED: recipe.cgo ? '1' : '0',
    };
  }
}

/** A package with the version of its module. Without one, `go get` takes the newest release of the module. */
function withVersion(path: string, { from }: GoModuleRecipe): string {
  const modules = from.kind === 'own' ? [] : from.modules.map((each) => each.split('@'));
  const [, version] = modules.find(([module = '']) => path.startsWith(`${module}/`)) ?? [];
  return version === undefined ? path : `${path}@${version}`;
}

/** The modules that the go.mod of Kubernetes replaces by directories below `staging`. */
export function stagingModules(goMod: string): readonly string[] {
  return [...goMod.matchAll(/^\s*(?:replace\s+)?(k8s\.io\/[a-z0-9-]+) => \.\/staging\//gm)].map(
    ([, name = '']) => name,
  );
}

/**
 * The number of concurrent compilers and linkers: one for each core, limited by the memory for as many
 * linkers.
 */
export function parallelism(machine: { readonly cores: number; readonly memoryBytes: number }): number {
  return Math.max(1, Math.min(machine.cores, Math.floor(machine.memoryBytes / LINK_BYTES)));
}

/** The file name that `go build -o DIRECTORY/` gives a program: the last part of its path that is not a major version. */
function outputName(path: string): string {
  const parts = path.split('/').filter((part) => !/^v[0-9]+$/.test(part));
  return parts.at(-1) ?? path;
}

function packagesOf(recipe: GoModuleRecipe): readonly string[] {
  const own = recipe.from.kind === 'own' ? './' : '';
  return Object.values(recipe.programs).map((path) => `${own}${path}`);
}

function tagsOf(recipe: GoModuleRecipe): readonly string[] {
  return recipe.tags.length === 0 ? [] : ['-tags', recipe.tags.join(',')];
}
