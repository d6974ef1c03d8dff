/** A PE32+ program with sections of 512 bytes from byte 1024 on. */
export function fakeStub(count: number, symbols = ''): Buffer {
  const stub = Buffer.alloc(1024 + count * 512);
  const optional = 0x80 + 24;
  stub.write('MZ', 0, 'ascii');
  stub.writeUInt32LE(0x80, 0x3c);
  stub.write('PE', 0x80, 'ascii');
  stub.writeUInt16LE(count, 0x80 + 6);
  stub.writeUInt16LE(240, 0x80 + 20);
  stub.writeUInt16LE(0x20b, optional);
  stub.writeUInt32LE(1024, optional + 60);
  for (let index = 0; index < count; index++) {
    const at = optional + 240 + index * 40;
    stub.write(`.s${index}`, at, 'ascii');
    stub.writeUInt32LE(512, at + 8);
    stub.writeUInt32LE(4096 + index * 512, at + 12);
    stub.writeUInt32LE(512, at + 16);
    stub.writeUInt32LE(1024 + index * 512, at + 20);
  }
  return Buffer.concat([stub, Buffer.from(symbols)]);
}
