/** A Go module that a program was built from. */
export interface GoModule {
  readonly path: string;
  readonly version: string;
}

/**
 * The build information that the Go linker writes into a program (https://pkg.go.dev/debug/buildinfo, `go version -m`).
 */
export interface GoBuildInfo {
  /** `go1.26.10` */
  readonly goVersion: string;
  /**
   * The module of the main package comes first. A replaced module has the name and version of its replacement. Modules
   * of version `(devel)` are left out.
   */
  readonly modules: readonly GoModule[];
}

const MAGIC = Buffer.from('\xff Go buildinf:', 'latin1');
/** The header is aligned to 16 bytes and is 32 bytes long; two strings follow, each after its length as a varint. */
const ALIGNMENT = 16;
const HEADER = 32;
/** Bit of the byte after magic and pointer size: the strings follow the header (since Go 1.18). */
const INLINE = 2;
/** Size of the sentinel before, and of the sentinel after the list of modules. */
const SENTINEL = 16;
const MAX_BYTES = 4 * 1024 * 1024;

/**
 * The build information in the bytes of a program; undefined when there is none, as in programs that are not written in
 * Go. Programs that read build information also contain the magic bytes elsewhere; a place that cannot be parsed is
 * skipped.
 */
export function parseGoBuildInfo(program: Uint8Array): GoBuildInfo | undefined {
  const bytes = Buffer.from(program.buffer, program.byteOffset, program.byteLength);
  for (let at = bytes.indexOf(MAGIC); at !== -1; at = bytes.indexOf(MAGIC, at + 1)) {
    const info = at % ALIGNMENT === 0 ? parseAt(bytes, at) : undefined;
    if (info !== undefined) return info;
  }
  return undefined;
}

function parseAt(bytes: Buffer, at: number): GoBuildInfo | undefined {
  if (((bytes[at + MAGIC.length + 1] ?? 0) & INLINE) === 0) return undefined;
  const version = readString(bytes, at + HEADER);
  const list = version && readString(bytes, version.end);
  if (list === undefined || !/^go\d/.test(version?.text ?? '')) return undefined;
  return { goVersion: version?.text ?? '', modules: parseModules(list.text.slice(SENTINEL, -SENTINEL)) };
}

/** A string after its length: an unsigned varint (encoding/binary), little end first, seven bits a byte. */
function readString(bytes: Buffer, at: number): { readonly text: string; readonly end: number } | undefined {
  let length = 0;
  for (let index = 0; index < 4; index += 1) {
    const byte = bytes[at + index];
    if (byte === undefined) return undefined;
    length |= (byte & 0x7f) << (7 * index);
    if (byte >= 0x80) continue;
    const start = at + index + 1;
    const end = start + length;
    // The sentinels around the list of modules are no UTF-8.
    return length > MAX_BYTES || end > bytes.length
      ? undefined
      : { text: bytes.toString('latin1', start, end), end };
  }
  return undefined;
}

/** Lines such as `dep<tab>k8s.io/api<tab>v0.37.2<tab>h1:…`; `=>` replaces the module of the line before. */
function parseModules(text: string): readonly GoModule[] {
  const modules: GoModule[] = [];
  for (const line of text.split('\n')) {
    const [kind, path = '', version = ''] = line.split('\t');
    // A replacement by a directory has no version: the module keeps its own name.
    if (version === '' || version === '(devel)') continue;
    if (kind === '=>') modules.pop();
    if (kind === 'mod' || kind === 'dep' || kind === '=>') modules.push({ path, version });
  }
  return modules;
}
