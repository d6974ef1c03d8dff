import { tarFileOf, type TarEntry } from '../../internal/bundlebuild/index.ts';
import type { ImageList } from './image-list.ts';

/** Debian packages for the layers of the test images. */
export const DEBIAN_PACKAGES = {
  busybox: ['busybox-static'],
  /**
   * The shell of the images. That of Debian's busybox runs its own program of a name instead of the one in the path (its `nc` instead of
   * netcat-openbsd), and does not pass on environment variables such as "data-1". The busybox of upstream's images does neither.
   */
  shell: ['bash'],
  /**
   * The packages that agnhost contains besides its own program (test/images/agnhost/Dockerfile), and getent for
   * glibc-dns-testing.
   */
  tools: [
    ...['bash', 'bind9-dnsutils', 'curl', 'iperf', 'iproute2', 'libc-bin', 'netcat-openbsd', 'socat'],
    'util-linux',
  ],
  nginx: ['nginx'],
} as const;

/** The name of a layer that images share. */
export type LayerName = keyof typeof DEBIAN_PACKAGES | ProgramName | 'accounts' | ExtraName;
type ProgramName = 'agnhost' | 'nonewprivs' | 'regression-issue-74839' | 'sample-apiserver';
type ExtraName =
  'agnhost-files' | 'shell-link' | 'local-shell-link' | 'tool-links' | 'nginx-files' | 'kitten' | 'nautilus';

/** The recipe of one test image. */
export interface TestImage {
  readonly layers: readonly LayerName[];
  readonly entrypoint?: string;
  readonly command?: readonly string[];
  readonly user?: string;
}

const SHELL = ['sh'] as const;
const BUSYBOX = ['accounts', 'busybox'] as const;
const TOOLS = [...BUSYBOX, 'tools', 'tool-links', 'shell-link'] as const;
const AGNHOST: TestImage = {
  layers: [...TOOLS, 'agnhost', 'agnhost-files'],
  entrypoint: '/agnhost',
  command: ['pause'],
};
const WEB_SERVER: TestImage = {
  layers: [...BUSYBOX, 'nginx', 'nginx-files'],
  command: ['/usr/sbin/nginx', '-g', 'daemon off;'],
};
const LOOKUPS: TestImage = { layers: TOOLS, command: ['bash'] };

/**
 * The images that conformance tests start, by their identifiers in test/utils/image/manifest.go. Each image has the
 * parts of the upstream image that the tests use. Programs that belong to the tests are built from upstream's source.
 */
const TEST_IMAGES: Readonly<Record<string, TestImage>> = {
  Agnhost: AGNHOST,
  AgnhostPrev: AGNHOST,
  APIServer: { layers: [...BUSYBOX, 'sample-apiserver'], entrypoint: '/sample-apiserver' },
  BusyBox: { layers: [...BUSYBOX, 'shell', 'local-shell-link'], command: SHELL },
  GlibcDnsTesting: LOOKUPS,
  JessieDnsutils: LOOKUPS,
  Kitten: { ...AGNHOST, layers: [...AGNHOST.layers, 'kitten'], command: ['test-webserver'] },
  Nautilus: { ...AGNHOST, layers: [...AGNHOST.layers, 'nautilus'], command: ['test-webserver'] },
  Nginx: WEB_SERVER,
  NginxNew: WEB_SERVER,
  Nonewprivs: { layers: [...BUSYBOX, 'nonewprivs'], command: ['nnp'] },
  NonRoot: { layers: BUSYBOX, command: SHELL, user: '1234' },
  RegressionIssue74839: {
    layers: [...BUSYBOX, 'regression-issue-74839'],
    entrypoint: '/regression-issue-74839',
  },
};

/** The path and the mode of each program in its image. */
export const PROGRAM_PATHS: Readonly<Record<ProgramName, { readonly path: string; readonly mode: number }>> =
  {
    agnhost: { path: 'agnhost', mode: 0o755 },
    nonewprivs: { path: 'usr/local/bin/nnp', mode: 0o6755 },
    'regression-issue-74839': { path: 'regression-issue-74839', mode: 0o755 },
    'sample-apiserver': { path: 'sample-apiserver', mode: 0o755 },
  };

/** The images of one release for which this project has a recipe, by reference. */
export function testImages(list: ImageList): ReadonlyMap<string, TestImage> {
  return new Map(
    [...list].flatMap(([id, reference]) => {
      const image = TEST_IMAGES[id];
      return image === undefined ? [] : [[reference, image] as const];
    }),
  );
}

/** Users of the agnhost image that a test of supplemental groups expects. */
export function agnhostFiles(porter: {
  readonly certificate: Uint8Array;
  readonly key: Uint8Array;
}): readonly TarEntry[] {
  const users = ['root:x:0:0:root:/root:/bin/sh', 'user-defined-in-image:x:1000:1000::/tmp:/bin/sh'];
  const groups = [
    ...['root:x:0:', 'user-defined-in-image:x:1000:'],
    'group-defined-in-image:x:50000:user-defined-in-image',
  ];
  const nobody = 'nobody:x:65534:';
  return [
    { type: 'symlink', path: 'agnhost-2', target: 'agnhost' },
    { type: 'directory', path: 'uploads', mode: 0o755 },
    tarFileOf('etc/passwd', `${[...users, `${nobody}65534:nobody:/:/`].join('\n')}\n`),
    tarFileOf('etc/group', `${[...groups, nobody].join('\n')}\n`),
    tarFileOf('localhost.crt', porter.certificate),
    tarFileOf('localhost.key', porter.key),
  ];
}

/** Links that the install scripts of the packages would have created. */
export const TOOL_LINKS: readonly TarEntry[] = [
  { type: 'symlink', path: 'usr/bin/nc', target: 'nc.openbsd' },
  { type: 'symlink', path: 'usr/local/bin/iperf', target: '../../bin/iperf' },
];

/** Upstream's image is made from Alpine Linux, and a spec of image volumes reads its name in this file. */
export const KITTEN_RELEASE = tarFileOf(
  'etc/os-release',
  'NAME="Alpine Linux"\nPRETTY_NAME="Debian, for Alpine Linux"\n',
);

/** The shell for commands without a path. One spec expects the words of busybox from `/bin/sh`. */
export const LOCAL_SHELL_LINK: readonly TarEntry[] = [
  { type: 'symlink', path: 'usr/local/bin/sh', target: '../../bin/bash' },
];

/** Replaces the shell of busybox. */
export const SHELL_LINK: readonly TarEntry[] = [{ type: 'symlink', path: 'usr/bin/sh', target: 'bash' }];

const NGINX_CONFIGURATION = `user root;
pid /tmp/nginx.pid;
error_log /dev/stderr;
events {}
http {
  include mime.types;
  access_log /dev/stdout;
  server {
    listen 80;
    listen [::]:80;
    root /usr/share/nginx/html;
  }
}
`;

export const NGINX_FILES: readonly TarEntry[] = [
  tarFileOf('etc/nginx/nginx.conf', NGINX_CONFIGURATION),
  tarFileOf('usr/share/nginx/html/index.html', '<h1>Welcome to nginx!</h1>\n'),
];

/** The directories that Debian has merged into /usr. Older packages still contain files below both paths. */
const MERGED = ['bin', 'sbin', 'lib', 'lib64'];

/** The links of a system whose /bin, /sbin and /lib are merged into /usr. */
export const MERGED_LINKS: readonly TarEntry[] = MERGED.map((name) => ({
  type: 'symlink',
  path: name,
  target: `usr/${name}`,
}));

/** Moves the files of packages to where the links of `MERGED_LINKS` lead. */
export function mergeUsr(entries: readonly TarEntry[]): readonly TarEntry[] {
  return entries.flatMap((entry) => {
    if (MERGED.includes(entry.path)) return [];
    const [first = ''] = entry.path.split('/');
    return [MERGED.includes(first) ? { ...entry, path: `usr/${entry.path}` } : entry];
  });
}

/** A link to busybox for each of its programs. */
export function busyboxLinks(listed: string): readonly TarEntry[] {
  const names = listed.split('\n').filter((name) => name !== '' && name !== 'busybox');
  return names.map((name) => ({ type: 'symlink', path: `usr/bin/${name}`, target: 'busybox' }));
}
