import type { ComponentScope } from '../../bundle/index.ts';

// Recipes are hashed into the keys of the build cache. If a field or kind is renamed, everything is built
// again.

/** Programs that are built together: in one temporary Go module, by one run of the compiler. */
export interface GoModuleRecipe {
  readonly id: string;
  /** Go modules as `module@version`, or our own programs. */
  readonly from: { readonly kind: 'modules'; readonly modules: readonly string[] } | { readonly kind: 'own' };
  /**
   * Program name → import path of its main package. For our own programs: its directory below `programs`.
   */
  readonly programs: Readonly<Record<string, string>>;
  /** Program name → import path of a package whose tests are compiled to this program (`go test -c`). */
  readonly tests?: Readonly<Record<string, string>>;
  readonly ldflags: readonly string[];
  readonly tags: readonly string[];
  /**
   * Links the C library of the build machine statically. The result then depends on the C compiler of that
   * machine.
   */
  readonly cgo: boolean;
}

/** One layer of an image. */
export type LayerRecipe =
  /** One program at one path of the image. */
  | {
      readonly kind: 'program';
      readonly program: string;
      readonly path: string;
      /** The file carries the capability to bind ports below 1024. */
      readonly netBindService?: true;
    }
  /** The network tools: iptables, nft, conntrack, ip with their libraries, and a static busybox, from Debian packages. */
  | { readonly kind: 'network-tools' }
  /** /etc/passwd, /etc/group, /etc/nsswitch.conf and empty directories. */
  | { readonly kind: 'accounts' };

interface ComponentRecipeBase {
  readonly name: string;
  readonly version: string;
  readonly scope: ComponentScope;
}

/** A program as a file. */
export interface BinaryRecipe extends ComponentRecipeBase {
  readonly kind: 'binary';
  readonly program: string;
}

/** A container image without a base image. */
export interface ImageRecipe extends ComponentRecipeBase {
  readonly kind: 'image';
  readonly reference: string;
  readonly layers: readonly LayerRecipe[];
  readonly entrypoint: string;
  /** `UID:GID`; default: root. */
  readonly user?: string;
}

/** A Helm chart of this repository as an archive. */
export interface ChartRecipe extends ComponentRecipeBase {
  readonly kind: 'chart';
  /** Directory below `cli/charts`. */
  readonly directory: string;
}

/** How one component is built. */
export type ComponentRecipe = BinaryRecipe | ImageRecipe | ChartRecipe;

/** How every component of one bundle is built. */
export interface BundleRecipe {
  readonly modules: readonly GoModuleRecipe[];
  readonly components: readonly ComponentRecipe[];
}

/** Debian packages of the network tools. apt adds the packages that they depend on. */
export const NETWORK_TOOL_PACKAGES = [
  'iptables',
  'nftables',
  'conntrack',
  'iproute2',
  'busybox-static',
] as const;
