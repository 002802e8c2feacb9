// A photo before it is sent: at most 1600 pixels, upright, and without what its file says besides (GPS above all).
import { Trouble } from "./api.js";
import { cameraOf } from "./exif.js";

const LONGEST = 1600; // [pixels]
const QUALITY = 0.92;
const SMALL = 500_000; // [pixels] up to which a photo is sent without loss: the service enlarges it, and every trace would count

export async function prepared(file, limits) {
  if (file.type && !file.type.startsWith("image/")) {
    throw new Trouble("This is not a photo", `${file.name || "The file"} is of the kind ${file.type}.`);
  }
  const name = file.name || "photo";
  try {
    const picture = await createImageBitmap(file, { imageOrientation: "from-image" });
    const scale = Math.min(1, LONGEST / Math.max(picture.width, picture.height));
    const [width, height] = [picture.width, picture.height].map((side) => Math.max(1, Math.round(side * scale)));
    const canvas = Object.assign(document.createElement("canvas"), { width, height });
    const pen = canvas.getContext("2d", { alpha: false });
    pen.imageSmoothingQuality = "high";
    pen.fillStyle = "#fff"; // under what is transparent
    pen.fillRect(0, 0, width, height);
    pen.drawImage(picture, 0, 0, width, height);
    picture.close();
    const kind = width * height <= SMALL ? "image/png" : "image/jpeg";
    const blob = await new Promise((done) => { canvas.toBlob(done, kind, QUALITY); });
    if (!blob) throw new Error("the canvas gave nothing");
    const smaller = scale < 1 ? `Sent at ${width} × ${height} pixels` : "Sent in full size";
    const camera = await cameraOf(file, width, height);
    return { name, blob, camera, url: URL.createObjectURL(blob), note: `${smaller}, without GPS data.` };
  } catch { // this browser cannot open it; the service may
    if (limits && file.size > limits.bytes) {
      const most = (limits.bytes / 1e6).toFixed(0);
      throw new Trouble("The photo is too large", `${name} has ${(file.size / 1e6).toFixed(0)} MB, and this service takes ${most} MB at most. This browser cannot open it to make it smaller; save it as a JPEG first.`);
    }
    return { name, blob: file, url: null, note: "Sent as it is: this browser cannot open it to make it smaller and remove its GPS data." };
  }
}
