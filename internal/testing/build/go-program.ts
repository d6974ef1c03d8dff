/** The build information of a Go program behind 16 bytes of other data, as the linker writes it: version, then lines of modules. */
export function goProgram(version: string, lines: readonly string[]): Buffer {
  const header = Buffer.alloc(32);
  header.write('\xff Go buildinf:', 0, 'latin1');
  header[15] = 2;
  const sentinel = 'w\xaf\x0c\x92t\x08\x02A\xe1\xc1\x07\xe6\xd6\x18\xe6';
  const modules = `0${sentinel}${lines.join('\n')}\n\xf92C1\x86\x18 r\x00\x82B\x10A\x16\xd8\xf2`;
  return Buffer.concat([Buffer.alloc(16, '\x7fELF', 'latin1'), header, sized(version), sized(modules)]);
}

function sized(text: string): Buffer {
  const bytes = Buffer.from(text, 'latin1');
  const length: number[] = [];
  for (let rest = bytes.length; ; rest >>= 7) {
    if (rest < 0x80) return Buffer.concat([Buffer.from([...length, rest]), bytes]);
    length.push((rest & 0x7f) | 0x80);
  }
}
