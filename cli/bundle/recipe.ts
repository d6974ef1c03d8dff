import type { ComponentScope } from '../../internal/bundle/index.ts';

/** Programs that are built together: one throwaway Go module, one run of the compiler. */
export interface GoModuleRecipe {
  readonly id: string;
  /** Where the code is: `module@version` each, or a directory of our own programs. */
  readonly from: { readonly kind: 'modules'; readonly modules: readonly string[] } | { readonly kind: 'own' };
  /** Program name → import path of its main package; for own programs, the directory's name. */
  readonly programs: Readonly<Record<string, string>>;
  readonly ldflags: readonly string[];
  readonly tags: readonly string[];
  /** Linked statically against the host's C library; the compiler is then part of the result. */
  readonly cgo: boolean;
}

export type LayerRecipe =
  /** One program at one path; capabilities that the file carries. */
  | {
      readonly kind: 'program';
      readonly program: string;
      readonly path: string;
      readonly netBindService?: true;
    }
  /** iptables, nft, conntrack, ip with what they load, and a static busybox: Debian's packages. */
  | { readonly kind: 'netbase' }
  /** /etc/passwd, /etc/group, /etc/nsswitch.conf and the usual folders. */
  | { readonly kind: 'accounts' };

interface ComponentRecipeBase {
  readonly name: string;
  readonly version: string;
  readonly scope: ComponentScope;
}

export interface BinaryRecipe extends ComponentRecipeBase {
  readonly kind: 'binary';
  readonly program: string;
}

export interface ImageRecipe extends ComponentRecipeBase {
  readonly kind: 'image';
  readonly reference: string;
  readonly layers: readonly LayerRecipe[];
  readonly entrypoint: string;
  readonly user?: string;
}

export interface ChartRecipe extends ComponentRecipeBase {
  readonly kind: 'chart';
  /** Directory below the charts of this repository. */
  readonly folder: string;
}

export type ComponentRecipe = BinaryRecipe | ImageRecipe | ChartRecipe;

export interface BundleRecipe {
  readonly modules: readonly GoModuleRecipe[];
  readonly components: readonly ComponentRecipe[];
}

/** Debian packages of the `netbase` layer; what they depend on comes with them. */
export const NETBASE_PACKAGES = ['iptables', 'nftables', 'conntrack', 'iproute2', 'busybox-static'] as const;
